package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/test/clitest"
)

// TestMain makes this binary corral as well, for the scripts and the tests
// that need a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"corral": func() { os.Exit(Main("v0.0.0-test")) },
	})
}

// raceOptions spare every process of a race-tested corral a second at its end.
const raceOptions = "atexit_sleep_ms=0"

// noConfig is a directory without the configuration that this machine may have.
const noConfig = "/nonexistent/config"

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	if err := os.Setenv("XDG_CONFIG_HOME", noConfig); err != nil {
		panic(err)
	}
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CORRAL_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
			env.Setenv("SHELL", "/bin/sh")
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", raceOptions)
			// Nothing that a call leaves in the temporary directory is ours.
			env.Defer(func() {
				left, err := filepath.Glob(filepath.Join(env.WorkDir, ".tmp", "corral-*"))
				if err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			})
			return nil
		},
		Cmds: clitest.Commands(),
	})
}
