//go:build e2e

// Package cli_test runs the program corral against a real container engine, by
// the scripts in testdata/script. What needs no engine is tested beside
// internal/cli. Nothing is skipped: without an engine the tests fail.
package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/cli"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/clitest"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"corral": func() { os.Exit(cli.Main("v0.0.0-e2e")) },
	})
}

func TestScripts(t *testing.T) {
	enginetest.New(t)
	warden := wardenbintest.Build(t)
	probe := filepath.Join(testdir.New(t), "probe")
	built.Copy(t, "cmd/corral-escape", probe)
	// It takes every container with it, also that of a test that failed.
	root := testdir.New(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", WorkdirRoot: root,
		Setup: func(env *testscript.Env) error {
			for _, kv := range [][2]string{
				{"CORRAL_STATE_DIR", filepath.Join(env.WorkDir, "state")},
				{"XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config")},
				{"CORRAL_IMAGE", images.Busybox},
				{"CORRAL_WARDEN", warden},
				{"CORRAL_PROBE", probe},
				{"DOCKER_HOST", os.Getenv("DOCKER_HOST")},
				{"GORACE", "atexit_sleep_ms=0"},
				{"HOME", env.WorkDir},
			} {
				env.Setenv(kv[0], kv[1])
			}
			return nil
		},
		Cmds: clitest.Commands(),
	})
}
