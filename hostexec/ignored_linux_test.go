package hostexec_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
)

// A gateway that was started with nohup does not make its commands deaf.
func TestIgnoredSignals(t *testing.T) {
	ignored := []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1}
	signal.Ignore(ignored...)
	defer func() { // signal.Reset alone leaves them ignored, and SIGHUP also after this
		signal.Notify(make(chan os.Signal, 1), ignored...)
		signal.Reset(ignored[1:]...)
	}()
	e, err := hostexec.New(hostexec.Config{StateDir: filepath.Join(testdir.New(t), "state"), WardenPath: wardenbintest.Build(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, sig := range []string{"HUP", "QUIT", "PIPE", "USR1"} {
		res, err := runner.Run(t.Context(), e, corral.Command{Args: []string{"/bin/sh", "-c", "kill -" + sig + " $$; echo deaf"}}, runner.Options{})
		if want, _ := corral.ParseSignal(sig); err != nil || res.Exit.Signal != want {
			t.Errorf("SIG%s: %v, %q, %v", sig, res.Exit, res.Output.Head, err)
		}
	}
}
