//go:build unix

package cli

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// A signal in the middle of a start leaves no command behind that nobody knows
// of, and none that was not started is called lost.
func TestInterruptedStart(t *testing.T) {
	for _, tc := range []struct {
		at   fakeexec.Op
		find error // of looking for it
		code int
	}{
		{fakeexec.OpStarted, nil, 130},
		{fakeexec.OpStart, nil, 130},
		{fakeexec.OpStarted, corral.ErrUnavailable, 125},
	} {
		m := &fakeMachine{}
		ended := false
		m.gateway.Programs = map[string]fakeexec.Program{"go": func(o *fakeexec.IO) int {
			fakeexec.Sleep(o)
			ended = true
			return 0
		}}
		m.gateway.Fault = func(op fakeexec.Op, _ string) error {
			switch op {
			case tc.at:
				if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Millisecond) // until corral has noticed
				return corral.Errorf(corral.ErrLost, "", "no answer")
			case fakeexec.OpAttach:
				return tc.find
			}
			return nil
		}
		code, _, stderr := m.run(t, nil, "exec", "-q", "go")
		if started := tc.at == fakeexec.OpStarted; code != tc.code || ended != started {
			t.Errorf("%s, %v: code %d, ended %v: %s", tc.at, tc.find, code, ended, stderr)
		}
	}
}

// blockedEngine answers when its caller has had enough.
type blockedEngine struct{ fakeEngine }

func (e *blockedEngine) Sandboxes(ctx context.Context, _ string) ([]daemon.SandboxRow, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestInterruptedEngine(t *testing.T) {
	eng := &blockedEngine{}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var errs bytes.Buffer
	a := &app.App{Stdin: null, Stdout: &errs, Stderr: &errs, Backends: daemon.Backends{
		Engine: func(context.Context, string) (daemon.Engine, error) { return eng, nil },
	}}
	code := commands{a}.run(t.Context(), []string{"sandbox", "ls", "--state-dir", t.TempDir()})
	if code != 143 || errs.String() != "corral: interrupted by SIGTERM\n" || eng.closed != 1 {
		t.Errorf("code %d, %q, closed %d times", code, errs.String(), eng.closed)
	}
}
