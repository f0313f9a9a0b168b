package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/runner"
)

// fake is an executor whose one command, "x", is program.
func fake(t *testing.T, program fakeexec.Program) *fakeexec.Executor {
	t.Helper()
	ex := &fakeexec.Executor{Info: corral.Info{Host: corral.HostGateway}, Programs: map[string]fakeexec.Program{"x": program}}
	t.Cleanup(func() {
		if err := ex.Close(); err != nil {
			t.Error(err)
		}
	})
	return ex
}

func TestRunCollectsAndStreams(t *testing.T) {
	program := func(o *fakeexec.IO) int {
		fmt.Fprint(o.Stdout, "one\n")
		fmt.Fprint(o.Stderr, "two\n")
		fmt.Fprint(o.Stdout, "three\n")
		return 3
	}
	var stdout, stderr bytes.Buffer
	res, err := runner.Run(t.Context(), fake(t, program), corral.Command{Shell: "x"}, runner.Options{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	if res.Exit.Code != 3 || res.Info.Host != corral.HostGateway || res.Info.ID == "" {
		t.Errorf("exit %v of %+v", res.Exit, res.Info)
	}
	for what, got := range map[string][2]string{
		"Output": {res.Output.String(), "one\ntwo\nthree\n"},
		"Stdout": {res.Stdout.String(), "one\nthree\n"}, "Stderr": {res.Stderr.String(), "two\n"},
		"live stdout": {stdout.String(), "one\nthree\n"}, "live stderr": {stderr.String(), "two\n"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %q, want %q", what, got[0], got[1])
		}
	}
}

func TestRunInput(t *testing.T) {
	big := strings.Repeat("0123456789", 10_000)
	for _, tc := range []struct {
		name string
		cmd  corral.Command
		in   io.Reader
		want string
	}{
		{"none", corral.Command{}, nil, ""},
		{"none on a terminal", corral.Command{TTY: &corral.Size{}}, nil, ""},
		{"none whatever the command says", corral.Command{Stdin: true}, nil, ""},
		{"empty", corral.Command{}, strings.NewReader(""), ""},
		{"big", corral.Command{}, strings.NewReader(big), big},
		{"byte by byte", corral.Command{}, iotest.OneByteReader(strings.NewReader("abc")), "abc"},
		{"last bytes with the end", corral.Command{}, iotest.DataErrReader(strings.NewReader("abc")), "abc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cmd.Shell = "x"
			res, err := runner.Run(t.Context(), fake(t, fakeexec.Cat), tc.cmd, runner.Options{Stdin: tc.in})
			if err != nil || !res.Exit.Success() || res.Stdout.String() != tc.want {
				t.Errorf("%d bytes, want %d; %v, %v", len(res.Stdout.String()), len(tc.want), res.Exit, err)
			}
		})
	}
}

// typist notes what is done to a process's input.
type typist struct {
	corral.Executor
	corral.Process
	again error // of all that is typed after the first end
	began time.Time
	typed []string
}

func (k *typist) Start(ctx context.Context, cmd corral.Command) (p corral.Process, err error) {
	k.began = time.Now()
	k.Process, err = k.Executor.Start(ctx, cmd)
	return k, err
}

func (k *typist) note(what string) error {
	k.typed = append(k.typed, fmt.Sprintf("%s %v", what, time.Since(k.began)))
	if len(k.typed) > 1 {
		return k.again
	}
	return nil
}

func (k *typist) Write(_ context.Context, b []byte) (int, error) {
	return len(b), k.note(fmt.Sprintf("%q", b))
}

func (k *typist) CloseStdin(context.Context) error { return k.note("end") }

// A terminal loses the end of the input when a program changes its mode, and a
// program takes it for one read: it is repeated until the command has ended.
func TestRunInputEndsAgainOnTerminals(t *testing.T) {
	const kill = `"\x15" `
	for _, tc := range []struct {
		name  string
		tty   *corral.Size
		again error
		want  []string
	}{
		{"a pipe", nil, nil, []string{"end 0s"}},
		{"a terminal", &corral.Size{}, nil, []string{"end 0s", kill + "50ms", "end 50ms", kill + "150ms", "end 150ms",
			kill + "350ms", "end 350ms", kill + "750ms", "end 750ms", kill + "1.55s", "end 1.55s", kill + "2.55s", "end 2.55s"}},
		{"a terminal that is away", &corral.Size{}, corral.ErrUnavailable, []string{"end 0s", kill + "50ms", kill + "150ms",
			kill + "350ms", kill + "750ms", kill + "1.55s", kill + "2.55s"}},
		{"a terminal that nobody reads", &corral.Size{}, corral.ErrEnded, []string{"end 0s", kill + "50ms"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &typist{again: tc.again, Executor: fake(t, func(o *fakeexec.IO) int {
					select {
					case <-o.Context.Done():
					case <-time.After(3 * time.Second):
					}
					return 3
				})}
				res, err := runner.Run(t.Context(), k, corral.Command{Shell: "x", TTY: tc.tty}, runner.Options{Stdin: strings.NewReader("")})
				if err != nil || res.Exit.Code != 3 {
					t.Errorf("%v, %v", res.Exit, err)
				}
				if !slices.Equal(k.typed, tc.want) {
					t.Errorf("typed %q, want %q", k.typed, tc.want)
				}
			})
		})
	}
}

// A command that does not read its input is not a failure.
func TestRunInputNobodyReads(t *testing.T) {
	endless := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	res, err := runner.Run(t.Context(), fake(t, fakeexec.Print("done", "", 0)), corral.Command{Shell: "x"}, runner.Options{Stdin: endless})
	if err != nil || res.Stdout.Head != "done" {
		t.Errorf("%+v, %v", res, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestRunDoesNotWaitForAReaderThatBlocks(t *testing.T) {
	r, w := io.Pipe()
	res, err := runner.Run(t.Context(), fake(t, fakeexec.Print("done", "", 0)), corral.Command{Shell: "x"}, runner.Options{Stdin: r})
	if err != nil || res.Stdout.Head != "done" {
		t.Errorf("%+v, %v", res, err)
	}
	if err := w.Close(); err != nil { // ends the goroutine, as documented; goleak watches
		t.Fatal(err)
	}
}

func TestRunKeepsHeadAndTail(t *testing.T) {
	out := "ä" + strings.Repeat("x", 97) + "ö" + strings.Repeat("y", 100_000) + "ü" + strings.Repeat("z", 99)
	res, err := runner.Run(t.Context(), fake(t, fakeexec.Print(out, "e", 0)), corral.Command{Shell: "x"}, runner.Options{MaxOutput: 100})
	if err != nil {
		t.Fatal(err)
	}
	// Byte 100 is the middle of ö, and the hundredth from the end that of ü.
	if want := "ä" + strings.Repeat("x", 97); res.Stdout.Head != want {
		t.Errorf("head %q", res.Stdout.Head)
	}
	if want := strings.Repeat("z", 99); res.Stdout.Tail != want {
		t.Errorf("tail %q", res.Stdout.Tail)
	}
	if got := int64(len(res.Stdout.Head)+len(res.Stdout.Tail)) + res.Stdout.Omitted; got != int64(len(out)) {
		t.Errorf("%d bytes accounted for, want %d", got, len(out))
	}
	if res.Stderr != (runner.Excerpt{Head: "e"}) || res.Gap != 0 {
		t.Errorf("stderr %+v, gap %d", res.Stderr, res.Gap)
	}
	res, err = runner.Run(t.Context(), fake(t, fakeexec.Print(out, "", 0)), corral.Command{Shell: "x"}, runner.Options{MaxOutput: -1})
	if err != nil || res.Stdout != (runner.Excerpt{Omitted: int64(len(out))}) {
		t.Errorf("nothing kept: %+v, %v", res.Stdout, err)
	}
}

// A log that dropped its middle before Run came to read it.
func TestRunCountsTheGap(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cmd    corral.Command
		stderr runner.Excerpt
	}{
		{"two streams", corral.Command{}, runner.Excerpt{Omitted: 979}},
		{"merged", corral.Command{MergeStderr: true}, runner.Excerpt{}},
		{"terminal", corral.Command{TTY: &corral.Size{}}, runner.Excerpt{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ex := fake(t, fakeexec.Print("0123456789"+strings.Repeat("x", 979)+"abcdefghijk", "", 0))
			var written atomic.Bool
			ex.Fault = func(op fakeexec.Op, id string) error {
				if op == fakeexec.OpRead && written.CompareAndSwap(false, true) {
					p, err := ex.Attach(t.Context(), id)
					if err == nil {
						_, err = p.Wait(t.Context())
					}
					return err
				}
				return nil
			}
			tc.cmd.Shell, tc.cmd.Log = "x", corral.LogLimit{Head: 10, Tail: 11}
			res, err := runner.Run(t.Context(), ex, tc.cmd, runner.Options{})
			want := runner.Excerpt{Head: "0123456789", Tail: "abcdefghijk", Omitted: 979}
			if err != nil || res.Gap != 979 || res.Output != want || res.Stdout != want || res.Stderr != tc.stderr {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

func TestRunCancel(t *testing.T) {
	stop := errors.New("the user pressed a key")
	for _, tc := range []struct {
		name    string
		program fakeexec.Program
		grace   time.Duration
		cause   error
		signal  corral.Signal
		text    string
		after   time.Duration
	}{
		{"sleeper", sayAndSleep, 0, nil, corral.SIGTERM, "cancelled: context canceled; the command was stopped: signal SIGTERM (15)", 0},
		{"with a cause", sayAndSleep, 0, stop, corral.SIGTERM, "cancelled: the user pressed a key (context canceled); the command was stopped: signal SIGTERM (15)", 0},
		{"stubborn", fakeexec.Stubborn("partial"), 0, nil, corral.SIGKILL, "signal SIGKILL (9)", corral.DefaultGrace},
		{"less grace", fakeexec.Stubborn("partial"), time.Second, nil, corral.SIGKILL, "signal SIGKILL (9)", time.Second},
		{"no grace", sayAndSleep, -1, nil, corral.SIGKILL, "signal SIGKILL (9)", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				begin := time.Now()
				time.AfterFunc(time.Minute, func() { cancel(tc.cause) })
				ex := fake(t, tc.program)
				res, err := runner.Run(ctx, ex, corral.Command{Shell: "x", Grace: tc.grace}, runner.Options{})
				if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %v", err)
				}
				if tc.cause != nil && !errors.Is(err, tc.cause) {
					t.Errorf("the cause is not in %v", err)
				}
				if res.Exit.Signal != tc.signal || res.Stdout.Head != "partial" {
					t.Errorf("%v, output %q", res.Exit, res.Stdout.Head)
				}
				if took := time.Since(begin) - time.Minute; took != tc.after {
					t.Errorf("took %v after the cancel, want %v", took, tc.after)
				}
			})
		})
	}
}

func sayAndSleep(o *fakeexec.IO) int {
	fakeexec.Print("partial", "", 0)(o)
	return fakeexec.Sleep(o)
}

func TestRunCancelledAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := writerFunc(func(p []byte) (int, error) {
		time.Sleep(20 * time.Millisecond) // the command has ended by now
		cancel()
		time.Sleep(20 * time.Millisecond) // and the signal found no process
		return len(p), nil
	})
	res, err := runner.Run(ctx, fake(t, fakeexec.Print("all", "", 4)), corral.Command{Shell: "x"}, runner.Options{Stdout: out})
	if err != nil || res.Exit.Code != 4 || res.Stdout.Head != "all" {
		t.Errorf("%+v, %v", res, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Whatever breaks on the way, Run returns, says so, and leaves nothing running
// that it could stop.
func TestRunFaults(t *testing.T) {
	boom := errors.New("boom")
	lost := corral.Errorf(corral.ErrLost, "", "the node went away")
	for _, tc := range []struct {
		name   string
		ops    map[fakeexec.Op]error
		opt    runner.Options
		cancel bool
		kinds  []error
		text   string
		signal corral.Signal
		kept   string
	}{
		{name: "start", ops: map[fakeexec.Op]error{fakeexec.OpStart: boom}, kinds: []error{boom}, text: "boom"},
		{name: "read the log", ops: map[fakeexec.Op]error{fakeexec.OpRead: boom}, kinds: []error{boom},
			text: "cannot read the command's output: boom; the command was stopped: signal SIGTERM (15)", signal: corral.SIGTERM},
		{name: "wait", ops: map[fakeexec.Op]error{fakeexec.OpWait: lost}, kinds: []error{corral.ErrLost}, text: "the node went away", kept: "partial"},
		{name: "pass input", ops: map[fakeexec.Op]error{fakeexec.OpWrite: boom}, opt: runner.Options{Stdin: strings.NewReader("in")},
			kinds: []error{boom}, text: "cannot pass standard input to the command: boom", signal: corral.SIGTERM},
		{name: "close input", ops: map[fakeexec.Op]error{fakeexec.OpCloseStdin: boom}, opt: runner.Options{Stdin: strings.NewReader("")},
			kinds: []error{boom}, text: "cannot close the command's standard input: boom", signal: corral.SIGTERM},
		{name: "read input", opt: runner.Options{Stdin: iotest.ErrReader(boom)}, kinds: []error{boom},
			text: "cannot read standard input: boom", signal: corral.SIGTERM},
		{name: "write output", opt: runner.Options{Stdout: writerFunc(func([]byte) (int, error) { return 0, boom })},
			kinds: []error{boom}, text: "cannot write the command's stdout: boom; the command was stopped", signal: corral.SIGTERM, kept: "partial"},
		{name: "stop", ops: map[fakeexec.Op]error{fakeexec.OpSignal: errors.ErrUnsupported}, cancel: true,
			kinds: []error{corral.ErrLost, context.Canceled, errors.ErrUnsupported}, text: "may still run: cancelled: context canceled; cannot stop it: unsupported operation", kept: "partial"},
		{name: "stop and wait", ops: map[fakeexec.Op]error{fakeexec.OpWait: lost}, cancel: true,
			kinds: []error{corral.ErrLost}, text: "the node went away", kept: "partial"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancel {
					time.AfterFunc(time.Minute, cancel)
				}
				ex := fake(t, sayAndSleep)
				ex.Fault = func(op fakeexec.Op, _ string) error { return tc.ops[op] }
				res, err := runner.Run(ctx, ex, corral.Command{Shell: "x"}, tc.opt)
				for _, kind := range tc.kinds {
					if !errors.Is(err, kind) {
						t.Errorf("error %v is not %v", err, kind)
					}
				}
				if err == nil || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %v, want %s", err, tc.text)
				}
				if res.Exit.Signal != tc.signal || tc.kept != "" && res.Stdout.Head != tc.kept {
					t.Errorf("%v, output %q", res.Exit, res.Stdout.Head)
				}
			})
		})
	}
}

// A writer that failed is not called again, and the failure is reported even
// if the command had ended well before it could be stopped.
func TestRunFailedWriter(t *testing.T) {
	boom := errors.New("boom")
	calls := 0
	out := writerFunc(func([]byte) (int, error) { calls++; return 0, boom })
	program := func(o *fakeexec.IO) int {
		for range 3 {
			fmt.Fprint(o.Stdout, "x")
		}
		return 0
	}
	ex := fake(t, program)
	ex.Fault = func(op fakeexec.Op, _ string) error {
		if op == fakeexec.OpSignal {
			return corral.ErrEnded
		}
		return nil
	}
	res, err := runner.Run(t.Context(), ex, corral.Command{Shell: "x"}, runner.Options{Stdout: out})
	if !errors.Is(err, boom) || err.Error() != "cannot write the command's stdout: boom" || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	if !res.Exit.Success() || res.Stdout.Head != "xxx" {
		t.Errorf("%+v", res)
	}
}

// A process that survives SIGKILL, as one in an uninterruptible sleep does.
func TestRunGivesUpOnTheUnkillable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ex := with{fake(t, sayAndSleep), func(p corral.Process) corral.Process { return deaf{p} }}
		begin := time.Now()
		res, err := runner.Run(ctx, ex, corral.Command{Shell: "x"}, runner.Options{})
		if !errors.Is(err, corral.ErrLost) || !errors.Is(err, context.DeadlineExceeded) || corral.Hint(err) == "" {
			t.Errorf("error %v", err)
		}
		if res.Stdout.Head != "partial" || !reflect.DeepEqual(res.Exit, corral.Exit{}) {
			t.Errorf("%+v", res)
		}
		if took := time.Since(begin) - time.Minute; took != corral.DefaultGrace+5*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

// with has each process of an executor be another one.
type with struct {
	corral.Executor
	as func(corral.Process) corral.Process
}

func (x with) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	return x.as(p), err
}

type deaf struct{ corral.Process }

func (deaf) Signal(context.Context, corral.Signal) error { return nil }

// A process that has ended, and whose last output cannot get into its log: the disk is full.
func TestRunGivesUpOnOutputThatWaits(t *testing.T) {
	for _, grace := range []time.Duration{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ex := with{fake(t, sayAndSleep), func(p corral.Process) corral.Process { return over{p} }}
			res, err := runner.Run(ctx, ex, corral.Command{Shell: "x", Grace: grace}, runner.Options{})
			if !errors.Is(err, corral.ErrLost) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has ended, but its last output has not come after 5s") || corral.Hint(err) == "" {
				t.Errorf("error %v", err)
			}
			if res.Stdout.Head != "partial" {
				t.Errorf("%+v", res)
			}
		})
	}
}

type over struct{ corral.Process }

func (over) Signal(context.Context, corral.Signal) error { return corral.ErrEnded }

func TestRunTimeoutIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := runner.Run(t.Context(), fake(t, fakeexec.Stubborn("partial")), corral.Command{Shell: "x", Timeout: time.Minute}, runner.Options{})
		if err != nil || res.Exit.Reason != corral.ReasonTimeout || res.Exit.Signal != corral.SIGKILL || res.Stdout.Head != "partial" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// If the answer to a signal is lost, the signal is sent again. The command has ended by
// then; it counts as stopped.
func TestRunStopsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ex := with{fake(t, sayAndSleep), func(p corral.Process) corral.Process { return signalledTwice{p} }}
		_, err := runner.Run(ctx, ex, corral.Command{Shell: "x"}, runner.Options{})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the command was stopped: signal SIGTERM (15)") {
			t.Errorf("%v", err)
		}
	})
}

// signalledTwice is sent every signal twice, and its end is waited for in between.
type signalledTwice struct{ corral.Process }

func (p signalledTwice) Signal(ctx context.Context, s corral.Signal) error {
	if err := p.Process.Signal(ctx, s); err != nil {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	return p.Process.Signal(ctx, s)
}

// The answer to a signal comes after the command's end is known, or never.
func TestRunStopsUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ex := with{fake(t, sayAndSleep), func(p corral.Process) corral.Process { return signalledUnanswered{p} }}
		_, err := runner.Run(ctx, ex, corral.Command{Shell: "x"}, runner.Options{})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the command was stopped: signal SIGTERM (15)") {
			t.Errorf("%v", err)
		}
	})
}

// signalledUnanswered does not say whether it was sent a signal.
type signalledUnanswered struct{ corral.Process }

func (p signalledUnanswered) Signal(ctx context.Context, s corral.Signal) error {
	if err := p.Process.Signal(ctx, s); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
