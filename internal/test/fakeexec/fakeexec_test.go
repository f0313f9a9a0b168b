package fakeexec

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFake(t *testing.T, programs map[string]Program) *Executor {
	t.Helper()
	ex := &Executor{Info: corral.Info{Host: corral.HostGateway, Dir: "/w"}, Programs: programs}
	t.Cleanup(func() {
		if err := ex.Close(); err != nil {
			t.Error(err)
		}
	})
	return ex
}

func start(t *testing.T, ex *Executor, cmd corral.Command) corral.Process {
	t.Helper()
	p, err := ex.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestUnknownProgram(t *testing.T) {
	res, err := runner.Run(t.Context(), newFake(t, nil), corral.Command{Args: []string{"frob", "-x"}}, runner.Options{})
	if err != nil || res.Exit.Code != 127 || res.Stderr.Head != "fake: frob -x: not found\n" || res.Info.Dir != "/w" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestIDs(t *testing.T) {
	ex := newFake(t, map[string]Program{"sleep": Sleep, "true": Print("", "", 0)})
	cmd := corral.Command{ID: "job", Shell: "sleep"}
	p := start(t, ex, cmd)
	routed := cmd
	routed.Host, routed.Elevated = corral.HostSandbox, true
	if again := start(t, ex, routed); again != p || ex.Starts() != 1 {
		t.Errorf("started %d times", ex.Starts())
	}
	if _, err := ex.Start(t.Context(), corral.Command{ID: "job", Shell: "true"}); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("another command: %v", err)
	}
	if got, err := ex.Attach(t.Context(), "job"); got != p || err != nil {
		t.Errorf("Attach: %v, %v", got, err)
	}
	if err := p.Remove(t.Context()); !errors.Is(err, corral.ErrRunning) {
		t.Errorf("Remove: %v", err)
	}
	if err := p.Signal(t.Context(), corral.SIGWINCH); err != nil {
		t.Error(err)
	}
	if err := p.Signal(t.Context(), corral.SIGTERM); err != nil {
		t.Error(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != corral.SIGTERM || exit.Code != -1 {
		t.Errorf("%v, %v", exit, err)
	}
	if err := p.Signal(t.Context(), corral.SIGTERM); !errors.Is(err, corral.ErrEnded) {
		t.Errorf("Signal after the end: %v", err)
	}
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, corral.ErrEnded) {
		t.Errorf("Write after the end: %v", err)
	}
	for range 2 {
		if err := p.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := ex.Attach(t.Context(), "job"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("Attach after Remove: %v", err)
	}
}

func TestInput(t *testing.T) {
	ex := newFake(t, map[string]Program{"cat": Cat, "sleep": Sleep})
	p := start(t, ex, corral.Command{Shell: "cat", Stdin: true})
	if n, err := p.Write(t.Context(), []byte("hello")); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for range 2 {
		if err := p.CloseStdin(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	c, err := p.Log().Read(t.Context(), 1, make([]byte, 3))
	if err != nil || string(c.Data) != "ell" || c.Offset != 1 || c.Stream != corral.Stdout {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := p.Log().Read(t.Context(), 5, make([]byte, 3)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}

	none := start(t, ex, corral.Command{Shell: "sleep"})
	if _, err := none.Write(t.Context(), []byte("x")); !errors.Is(err, corral.ErrStdinClosed) {
		t.Errorf("without input: %v", err)
	}
	deaf := start(t, ex, corral.Command{Shell: "sleep", Stdin: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := deaf.Write(ctx, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody reads: %v", err)
	}
}

func TestTerminal(t *testing.T) {
	ex := newFake(t, map[string]Program{"both": Print("o", "e", 0), "sleep": Sleep})
	p := start(t, ex, corral.Command{Shell: "both", TTY: &corral.Size{}})
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for off := range int64(2) {
		if c, err := p.Log().Read(t.Context(), off, make([]byte, 9)); err != nil || c.Stream != corral.Stdout {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if err := p.Resize(t.Context(), corral.Size{Rows: 5, Cols: 6}); err != nil {
		t.Error(err)
	}
	if err := start(t, ex, corral.Command{Shell: "sleep"}).Resize(t.Context(), corral.DefaultSize); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no terminal: %v", err)
	}
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	var broken Op
	ex := newFake(t, map[string]Program{"true": Print("", "", 0)})
	ex.Fault = func(op Op, _ string) error {
		if op == broken {
			return boom
		}
		return nil
	}
	ctx := t.Context()
	p := start(t, ex, corral.Command{Shell: "true", ID: "job"})
	for op, call := range map[Op]func() error{
		OpStart:      func() error { _, err := ex.Start(ctx, corral.Command{Shell: "true"}); return err },
		OpStarted:    func() error { _, err := ex.Start(ctx, corral.Command{Shell: "true"}); return err },
		OpAttach:     func() error { _, err := ex.Attach(ctx, "job"); return err },
		OpRead:       func() error { _, err := p.Log().Read(ctx, 0, nil); return err },
		OpWrite:      func() error { _, err := p.Write(ctx, nil); return err },
		OpCloseStdin: func() error { return p.CloseStdin(ctx) },
		OpSignal:     func() error { return p.Signal(ctx, corral.SIGTERM) },
		OpResize:     func() error { return p.Resize(ctx, corral.DefaultSize) },
		OpWait:       func() error { _, err := p.Wait(ctx); return err },
		OpRemove:     func() error { return p.Remove(ctx) },
	} {
		before := ex.Starts()
		broken = op
		if err := call(); !errors.Is(err, boom) {
			t.Errorf("%s: %v", op, err)
		}
		if started := ex.Starts() - before; (started == 1) != (op == OpStarted) {
			t.Errorf("%s: started %d", op, started)
		}
	}
}

// Whatever is written, and however it is read, the log is its head, a gap of
// the right length, and its tail.
func TestLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := corral.LogLimit{Head: rapid.Int64Range(1, 9).Draw(t, "head"), Tail: rapid.Int64Range(1, 9).Draw(t, "tail")}
		l := newMemLog(limit)
		var all, streams strings.Builder
		for i := range rapid.IntRange(0, 8).Draw(t, "writes") {
			data := strings.Repeat(string(rune('a'+i)), rapid.IntRange(0, 9).Draw(t, "n"))
			l.append(corral.Stream(1+i%2), []byte(data))
			all.WriteString(data)
			streams.WriteString(strings.Repeat(string(rune('1'+i%2)), len(data)))
		}
		l.end()
		if l.append(corral.Stdout, []byte("x")) {
			t.Fatal("the log takes output after its end")
		}
		stat, err := l.Stat(context.Background())
		size := int64(all.Len())
		if gap := max(0, size-limit.Head-limit.Tail); err != nil || stat.Size != size || stat.Gap() != gap || !stat.Ended {
			t.Fatalf("%+v, %v; want a gap of %d in %d", stat, err, gap, size)
		}
		buf := make([]byte, rapid.IntRange(1, 5).Draw(t, "buf"))
		for off := int64(0); ; {
			c, err := l.Read(context.Background(), off, buf)
			if errors.Is(err, io.EOF) {
				if off != size {
					t.Fatalf("ended at %d of %d", off, size)
				}
				return
			}
			if err != nil || len(c.Data) == 0 {
				t.Fatalf("%+v, %v", c, err)
			}
			if c.Offset != off && (off != stat.GapStart || c.Offset != stat.GapEnd) {
				t.Fatalf("reading at %d gave %d", off, c.Offset)
			}
			if want := all.String()[c.Offset:c.Next()]; string(c.Data) != want || strings.Trim(streams.String()[c.Offset:c.Next()], string(rune('0'+c.Stream))) != "" {
				t.Fatalf("%+v, want %q", c, want)
			}
			off = c.Next()
		}
	})
}
