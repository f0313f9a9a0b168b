package hostexec_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
)

// A program that says nothing has a state directory of its own, and the login
// shell's PATH.
func TestOpen(t *testing.T) {
	home := testdir.New(t)
	t.Setenv("XDG_STATE_HOME", home)
	t.Setenv("SHELL", "/bin/sh") // bash may wait for what this machine's account has in its profile
	t.Setenv("CORRAL_WARDEN", wardenbintest.Build(t))
	for range 2 { // and finds it again
		e, err := hostexec.Open(hostexec.Config{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := runner.Run(t.Context(), e, corral.Command{Shell: "echo hello"}, runner.Options{})
		if err != nil || r.Output.String() != "hello\n" {
			t.Errorf("%q, %v", r.Output, err)
		}
		if w := strings.Join(r.Info.Warnings, "\n"); strings.Contains(w, "login shell") {
			t.Error(w)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if dirs, err := filepath.Glob(filepath.Join(home, "corral-*")); err != nil || len(dirs) != 1 || !strings.HasSuffix(dirs[0], "hostexec.test") {
		t.Errorf("state is in %v, %v", dirs, err)
	}
}
