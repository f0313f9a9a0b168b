package execdriver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

func TestExecDriverSpec(t *testing.T) {
	e := &fakeEngine{}
	d := fakeDriver(t, e, t.TempDir())
	for _, test := range []struct {
		name string
		cmd  corral.Command
		want engine.ExecSpec
	}{
		{"plain", corral.Command{Args: []string{"exit", "0"}}, engine.ExecSpec{Args: []string{"exit", "0"}}},
		{"input", corral.Command{Args: []string{"exit", "0"}, Stdin: true}, engine.ExecSpec{Args: []string{"exit", "0"}, Stdin: true}},
		{"terminal", corral.Command{Args: []string{"exit", "0"}, TTY: &corral.Size{Cols: 7}}, engine.ExecSpec{Args: []string{"exit", "0"}, TTY: true, Rows: corral.DefaultSize.Rows, Cols: 7}},
		{"merged", corral.Command{Args: []string{"exit", "0"}, MergeStderr: true}, engine.ExecSpec{Args: []string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh", "exit", "0"}}},
		{"merged on a terminal", corral.Command{Args: []string{"exit", "0"}, MergeStderr: true, TTY: &corral.Size{Rows: 1, Cols: 2}}, engine.ExecSpec{Args: []string{"exit", "0"}, TTY: true, Rows: 1, Cols: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := mustStart(t, d, test.cmd)
			test.want.Env, test.want.Dir, test.want.User = []string{"A=b"}, "/d", "1:2"
			e.mu.Lock()
			defer e.mu.Unlock()
			if diff := cmp.Diff(test.want, e.specs[len(e.specs)-1]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			info := p.Info()
			if info.Dir != "/d" || info.PID != 0 || !info.Sandboxed || len(info.Warnings) != 2 || info.Warnings[1] != warning {
				t.Errorf("Info %+v", info)
			}
		})
	}
}

func TestExecDriverRuns(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	p := mustStart(t, d, command("say", "out", "err"))
	exit := mustWait(t, p)
	if exit.Code != 0 || exit.Signal != 0 || exit.Reason != corral.ReasonExited || exit.EndedAt.Before(exit.StartedAt) {
		t.Errorf("exit %+v", exit)
	}
	if got := output(t, p); got != "<1>out<2>err" {
		t.Errorf("output %q", got)
	}
	if err := p.Signal(t.Context(), corral.SIGTERM); !errors.Is(err, corral.ErrEnded) {
		t.Errorf("Signal after the end: %v", err)
	}
	// 128+n is what the engine says, and no signal is made of it.
	if exit := mustWait(t, mustStart(t, d, command("exit", "137"))); exit.Code != 137 || exit.Signal != 0 {
		t.Errorf("exit %+v", exit)
	}
}

func TestExecDriverRefuses(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	p := mustStart(t, d, command("sleep"))
	for _, test := range []struct {
		what string
		err  error
		want error
	}{
		{"Signal", p.Signal(t.Context(), corral.SIGTERM), errors.ErrUnsupported},
		{"Signal(0)", p.Signal(t.Context(), 0), corral.ErrInvalid},
		{"Resize", p.Resize(t.Context(), corral.DefaultSize), errors.ErrUnsupported},
		{"Resize to nothing", p.Resize(t.Context(), corral.Size{}), corral.ErrInvalid},
		{"Remove", p.Remove(t.Context()), corral.ErrRunning},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v", test.what, test.err)
		}
	}
	if hint := corral.Hint(p.Signal(t.Context(), corral.SIGTERM)); !strings.Contains(hint, "fds") {
		t.Errorf("the hint %q names no other driver", hint)
	}
}

func TestExecDriverNotExecuted(t *testing.T) {
	failure := &engine.ExecFailure{Code: 127, Text: `"x": not found`}
	for _, test := range []struct {
		name string
		cmd  corral.Command
		want string
	}{
		{"plain", command("x"), "<2>corral: \"x\": not found\n"},
		{"merged", corral.Command{Args: []string{"x"}, MergeStderr: true}, "<1>corral: \"x\": not found\n"},
		{"terminal", corral.Command{Args: []string{"x"}, TTY: &corral.Size{}}, "<1>corral: \"x\": not found\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := fakeDriver(t, &fakeEngine{noExec: []error{failure}}, t.TempDir())
			p := mustStart(t, d, test.cmd)
			if exit := mustWait(t, p); exit.Code != 127 || exit.Reason != corral.ReasonExited {
				t.Errorf("exit %+v", exit)
			}
			if got := output(t, p); got != test.want {
				t.Errorf("output %q", got)
			}
			if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, corral.ErrEnded) {
				t.Errorf("Write: %v", err)
			}
		})
	}
}

func TestExecDriverArgumentTooLong(t *testing.T) {
	e := &fakeEngine{}
	d := fakeDriver(t, e, t.TempDir())
	p := mustStart(t, d, command("exit", strings.Repeat("1", maxArgument)))
	if exit := mustWait(t, p); exit.Code != 126 || e.runs() != 0 || !strings.Contains(output(t, p), "too long") {
		t.Errorf("exit %+v, %d runs, output %q", exit, e.runs(), output(t, p))
	}
	if exit := mustWait(t, mustStart(t, d, command("exit", "3", strings.Repeat("1", maxArgument-1)))); exit.Code != 3 {
		t.Errorf("one byte less: %+v", exit)
	}
}

func TestExecDriverStartErrors(t *testing.T) {
	gone := errors.Join(engine.ErrNoContainer)
	for _, test := range []struct {
		name   string
		engine *fakeEngine
		want   error // nil: it starts after all
	}{
		{"bad directory", &fakeEngine{noExec: []error{corral.Errorf(corral.ErrDir, "", "x")}}, corral.ErrDir},
		{"engine away", &fakeEngine{noExec: []error{corral.Errorf(corral.ErrUnavailable, "", "x")}}, corral.ErrUnavailable},
		{"no container can be made", &fakeEngine{noBox: corral.Errorf(corral.ErrUnavailable, "", "x")}, corral.ErrUnavailable},
		{"the container ended meanwhile", &fakeEngine{noExec: []error{gone}}, nil},
		{"each container ends at once", &fakeEngine{noExec: []error{gone, gone}}, corral.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			d := fakeDriver(t, test.engine, dir)
			cmd := named("id", "exit", "4")
			p, err := d.Start(t.Context(), cmd)
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v", err)
			}
			if test.want == nil {
				if exit := mustWait(t, p); exit.Code != 4 {
					t.Errorf("exit %+v", exit)
				}
				return
			}
			if _, err := d.Attach(t.Context(), "id"); !errors.Is(err, corral.ErrNotFound) {
				t.Errorf("Attach: %v", err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			// Nothing ran: the ID can be used.
			test.engine.mu.Lock()
			test.engine.noBox = nil
			test.engine.mu.Unlock()
			if exit := mustWait(t, mustStart(t, d, cmd)); exit.Code != 4 {
				t.Errorf("started again: %+v", exit)
			}
		})
	}
}

func TestExecDriverMaybeStarted(t *testing.T) {
	e := &fakeEngine{noExec: []error{corral.Errorf(corral.ErrLost, "", "no answer")}}
	d := fakeDriver(t, e, t.TempDir())
	cmd := named("id", "exit", "0")
	if _, err := d.Start(t.Context(), cmd); !errors.Is(err, corral.ErrLost) {
		t.Fatalf("Start: %v", err)
	}
	p, err := d.Attach(t.Context(), "id")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) {
		t.Errorf("Wait: %v", err)
	}
	mustStart(t, d, cmd)
	if e.runs() != 0 {
		t.Error("what may have run was run again")
	}
}

func TestExecDriverStartIsGivenUp(t *testing.T) {
	e := &fakeEngine{hang: make(chan struct{})}
	d := fakeDriver(t, e, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	cmd := named("id", "exit", "5")
	for range 2 { // the caller who starts it, and one who finds it being started
		if _, err := d.Start(ctx, cmd); !errors.Is(err, corral.ErrLost) && !errors.Is(err, corral.ErrUnavailable) {
			t.Fatalf("Start: %v", err)
		}
	}
	if _, err := d.Attach(ctx, "id"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Attach meanwhile: %v", err)
	}
	close(e.hang)
	p, err := d.Attach(t.Context(), "id")
	if err != nil {
		t.Fatal(err)
	}
	if exit := mustWait(t, p); exit.Code != 5 || e.runs() != 1 {
		t.Errorf("exit %+v, %d runs", exit, e.runs())
	}
}

func TestExecDriverOutputCut(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	p := mustStart(t, d, command("cut"))
	if exit, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) {
		t.Errorf("%+v, %v", exit, err)
	}
	if got := output(t, p); got != "<1>half" {
		t.Errorf("output %q", got)
	}
}

func TestExecDriverDrains(t *testing.T) {
	for _, program := range []string{"hold", "flood", "trickle"} {
		t.Run(program, func(t *testing.T) {
			d := fakeDriver(t, &fakeEngine{}, t.TempDir())
			p := mustStart(t, d, command(program))
			begin := time.Now()
			exit := mustWait(t, p)
			if took := time.Since(begin); exit.Code != 0 || took > 5*time.Second {
				t.Errorf("%+v after %v", exit, took)
			}
			before, err := p.Log().Stat(t.Context())
			if err != nil || !before.Ended {
				t.Errorf("%+v, %v", before, err)
			}
			time.Sleep(20 * time.Millisecond)
			if now, err := p.Log().Stat(t.Context()); err != nil || now != before {
				t.Errorf("the log went on: %+v, %+v, %v", before, now, err)
			}
			if err := p.Signal(t.Context(), corral.SIGKILL); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Signal to what was left behind: %v", err)
			}
		})
	}
}

// Output that takes its time through the engine is not lost.
func TestExecDriverOutputIsLate(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	p := mustStart(t, d, command("late"))
	mustWait(t, p)
	if stat, err := p.Log().Stat(t.Context()); err != nil || stat.Size != 50 {
		t.Errorf("%+v, %v", stat, err)
	}
}

// A log that cannot be written holds the command up, and loses nothing.
func TestExecDriverLogStuck(t *testing.T) {
	dir := t.TempDir()
	d := fakeDriver(t, &fakeEngine{}, dir)
	inTheWay := filepath.Join(dir, "id.out")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	p := mustStart(t, d, named("id", "say", "out", "err"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if exit, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%+v, %v", exit, err)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	mustWait(t, p)
	if got := output(t, p); got != "<1>out<2>err" {
		t.Errorf("output %q", got)
	}
}
