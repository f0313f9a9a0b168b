package streamexec

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// fake is a Place and the Stream of its one command.
type fake struct {
	mu      sync.Mutex
	starts  int
	refuse  error // of Start
	expires []time.Duration
	fails   int  // of the first calls of Expire
	strikes bool // what Expire that fails says
	signals []corral.Signal

	once  sync.Once
	ended chan struct{}
	exit  corral.Exit
	err   error
}

func newFake() *fake { return &fake{ended: make(chan struct{})} }

func (f *fake) end(exit corral.Exit, err error) {
	f.once.Do(func() { f.exit, f.err = exit, err; close(f.ended) })
}

func (f *fake) Prepare(_ context.Context, cmd corral.Command) (Job, error) {
	return Job{Info: corral.Info{Host: corral.HostNode, Dir: cmd.Dir}, Start: func(_ context.Context, info *corral.Info) (Stream, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.starts++
		info.PID, info.Dir = 77, "/where"
		return f, f.refuse
	}}, nil
}

func (f *fake) Read([]byte) (int, corral.Stream, error) {
	<-f.ended
	return 0, 0, io.EOF
}
func (f *fake) Write(p []byte) (int, error)               { return len(p), nil }
func (f *fake) CloseWrite() error                         { return nil }
func (f *fake) Resize(context.Context, corral.Size) error { return nil }
func (f *fake) Close() error                              { f.end(corral.Exit{}, errors.New("closed")); return nil }

func (f *fake) Result(ctx context.Context) (corral.Exit, error) {
	select {
	case <-f.ended:
		return f.exit, f.err
	case <-ctx.Done():
		return corral.Exit{}, ctx.Err()
	}
}

func (f *fake) Expire(_ context.Context, grace time.Duration) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expires = append(f.expires, grace)
	if len(f.expires) <= f.fails {
		if f.strikes {
			defer f.end(corral.Exit{Code: -1, Signal: corral.SIGTERM}, nil)
		}
		return f.strikes, errors.New("busy")
	}
	f.end(corral.Exit{Code: -1, Signal: corral.SIGKILL}, nil)
	return true, nil
}

func (f *fake) Settle(exit corral.Exit, err error, _ bool) (corral.Exit, error) { return exit, err }

func (f *fake) signal(_ context.Context, _ corral.Info, s corral.Signal, running, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signals = append(f.signals, s)
	if !running {
		return corral.ErrEnded
	}
	return nil
}

func open(t *testing.T, dir string, f *fake) *Processes {
	t.Helper()
	x, err := Open(Options{
		Dir: dir, Retain: time.Hour, Name: "the place", Signal: f.signal,
		Unseen: func(id string) error { return corral.Errorf(corral.ErrLost, "", "nobody saw %s", id) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func start(t *testing.T, x *Processes, f *fake, cmd corral.Command) corral.Process {
	t.Helper()
	cmd.Shell = "true"
	p, err := x.Start(t.Context(), f, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pacedFake prints a number of chunks, and has ended before they are read.
type pacedFake struct {
	*fake
	chunks int
}

func (f *pacedFake) Prepare(_ context.Context, cmd corral.Command) (Job, error) {
	return Job{Info: corral.Info{Host: corral.HostNode, Dir: cmd.Dir}, Start: func(context.Context, *corral.Info) (Stream, error) { return f, nil }}, nil
}

func (f *pacedFake) Read(p []byte) (int, corral.Stream, error) {
	if f.chunks == 0 {
		return 0, 0, io.EOF
	}
	f.chunks--
	return copy(p, "chunk"), corral.Stdout, nil
}

// Took demands a longer pause than any output is waited for.
func (f *pacedFake) Took(int64) time.Duration { return time.Hour }

// What is on its way at the end is neither lost nor late, however slowly output is
// taken from commands.
func TestPacedEnd(t *testing.T) {
	f := &pacedFake{fake: newFake(), chunks: 1000}
	x := open(t, t.TempDir(), f.fake)
	p, err := x.Start(t.Context(), f, corral.Command{Shell: "true"})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if st, err := p.Log().Stat(t.Context()); err != nil || st.Size > 5 {
		t.Errorf("%+v, %v: it is not paced", st, err)
	}
	f.end(corral.Exit{}, nil)
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Log().Stat(t.Context()); err != nil || st.Size != 5000 || !st.Ended {
		t.Errorf("%+v, %v: want 5000 bytes", st, err)
	}
}

func TestExpire(t *testing.T) {
	for _, test := range []struct {
		name    string
		fake    *fake
		grace   time.Duration // of the command
		want    time.Duration // that Expire is given
		signal  corral.Signal
		expires int
	}{
		{"default grace", newFake(), 0, corral.DefaultGrace, corral.SIGKILL, 1},
		{"its own", newFake(), time.Second, time.Second, corral.SIGKILL, 1},
		{"none", newFake(), -1, 0, corral.SIGKILL, 1},
		{"failing once", &fake{ended: make(chan struct{}), fails: 1}, 0, corral.DefaultGrace, corral.SIGKILL, 2},
		{"failing after it struck", &fake{ended: make(chan struct{}), fails: 1, strikes: true}, 0, corral.DefaultGrace, corral.SIGTERM, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, open(t, t.TempDir(), test.fake), test.fake, corral.Command{Timeout: time.Millisecond, Grace: test.grace})
			exit, err := p.Wait(t.Context())
			if err != nil || exit.Reason != corral.ReasonTimeout || exit.Signal != test.signal {
				t.Errorf("%+v, %v", exit, err)
			}
			test.fake.mu.Lock()
			defer test.fake.mu.Unlock()
			if len(test.fake.expires) != test.expires || test.fake.expires[0] != test.want {
				t.Errorf("Expire was called with %v", test.fake.expires)
			}
		})
	}
}

// Why nobody knows how a process ended is known in the next life, too, and it is
// not run again.
func TestLost(t *testing.T) {
	dir, f := t.TempDir(), newFake()
	x := open(t, dir, f)
	p := start(t, x, f, corral.Command{ID: "one"})
	if info := p.Info(); info.PID != 77 || info.Dir != "/where" || info.ID != "one" {
		t.Errorf("%+v", info)
	}
	f.end(corral.Exit{}, errors.New("the wire was cut"))
	check := func(p corral.Process) {
		t.Helper()
		if _, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), "the wire was cut") {
			t.Errorf("Wait: %v", err)
		}
		if info := p.Info(); info.PID != 77 {
			t.Errorf("%+v", info)
		}
		if err := p.Signal(t.Context(), corral.SIGKILL); !errors.Is(err, corral.ErrLost) {
			t.Errorf("Signal: %v", err)
		}
	}
	check(p)
	check(start(t, x, f, corral.Command{ID: "one"}))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	check(start(t, open(t, dir, f), f, corral.Command{ID: "one"}))
	if f.starts != 1 || len(f.signals) != 3 {
		t.Errorf("started %d times, signalled %v", f.starts, f.signals)
	}
}

// A start of which it is not known whether it worked is a process that is lost.
func TestMaybeStarted(t *testing.T) {
	f := newFake()
	f.refuse = corral.Errorf(corral.ErrLost, "", "no answer")
	x := open(t, t.TempDir(), f)
	if _, err := x.Start(t.Context(), f, corral.Command{ID: "one", Shell: "true"}); !errors.Is(err, corral.ErrLost) {
		t.Errorf("Start: %v", err)
	}
	p, err := x.Attach(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("Wait: %v", err)
	}
	f.end(corral.Exit{}, nil)
}

// What is too old goes while the program goes on; what runs stays, however old
// its record is.
func TestPruneWhileUsed(t *testing.T) {
	dir, f := t.TempDir(), newFake()
	x := open(t, dir, f)
	runs := start(t, x, f, corral.Command{ID: "runs"})
	quick := newFake()
	quick.end(corral.Exit{Code: 3}, nil)
	for _, id := range []string{"old", "young"} {
		if _, err := start(t, x, quick, corral.Command{ID: id}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * time.Hour)
	for _, id := range []string{"runs", "old"} {
		if err := os.Chtimes(filepath.Join(dir, id+suffixRecord), past, past); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; {
		x.mu.Lock()
		x.pruned = past
		x.mu.Unlock()
		if _, err := start(t, x, quick, corral.Command{}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Attach(t.Context(), "old"); errors.Is(err, corral.ErrNotFound) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("what is old is kept")
		}
	}
	if _, err := x.Attach(t.Context(), "young"); err != nil {
		t.Error(err)
	}
	x.prune()
	if _, err := os.Stat(filepath.Join(dir, "runs"+suffixRecord)); err != nil {
		t.Error(err)
	}
	f.end(corral.Exit{Code: 5}, nil)
	if exit, err := runs.Wait(t.Context()); err != nil || exit.Code != 5 {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := open(t, dir, f).Attach(t.Context(), "runs")
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 5 {
		t.Errorf("later: %+v, %v", exit, err)
	}
}

// heldFake has more output when it has ended, which a descendant holds then.
type heldFake struct {
	*fake
	more chan string
	gone chan struct{}
}

func (f *heldFake) Prepare(_ context.Context, cmd corral.Command) (Job, error) {
	return Job{Info: corral.Info{Host: corral.HostNode, Dir: cmd.Dir}, Start: func(context.Context, *corral.Info) (Stream, error) { return f, nil }}, nil
}

func (f *heldFake) Read(p []byte) (int, corral.Stream, error) {
	select {
	case s := <-f.more:
		return copy(p, s), corral.Stdout, nil
	case <-f.gone:
		return 0, 0, os.ErrClosed
	}
}

func (f *heldFake) Close() error { close(f.gone); return nil }

// Settle leaves time for a Close that comes too early.
func (f *heldFake) Settle(exit corral.Exit, err error, struck bool) (corral.Exit, error) {
	time.Sleep(20 * time.Millisecond)
	return f.fake.Settle(exit, err, struck)
}

// Close waits for the last output of a command that has ended.
func TestCloseAfterTheEnd(t *testing.T) {
	dir := t.TempDir()
	f := &heldFake{newFake(), make(chan string), make(chan struct{})}
	x := open(t, dir, f.fake)
	p, err := x.Start(t.Context(), f, corral.Command{ID: "one", Shell: "true"})
	if err != nil {
		t.Fatal(err)
	}
	f.end(corral.Exit{Code: 3}, nil)
	<-p.(*process).out.ending
	closed := make(chan error, 1)
	go func() { closed <- x.Close() }()
	<-x.life.Done()
	select {
	case f.more <- "last":
	case <-f.gone:
		t.Fatal("its output is cut off")
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if p, err = open(t, dir, f.fake).Attach(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("%+v, %v", exit, err)
	}
	if st, err := p.Log().Stat(t.Context()); err != nil || st.Size != 4 {
		t.Errorf("%+v, %v", st, err)
	}
}

// slowPlace prepares until it is cancelled.
type slowPlace chan struct{}

func (s slowPlace) Prepare(ctx context.Context, _ corral.Command) (Job, error) {
	close(s)
	<-ctx.Done()
	return Job{}, ctx.Err()
}

// Close ends a start that is being prepared, whatever its caller says.
func TestCloseWhilePreparing(t *testing.T) {
	f := newFake()
	x := open(t, t.TempDir(), f)
	place, failed := make(slowPlace), make(chan error, 1)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	go func() {
		_, err := x.Start(ctx, place, corral.Command{Shell: "true"})
		failed <- err
	}()
	<-place
	defer time.AfterFunc(2*time.Second, giveUp).Stop()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("Close waited for the caller")
	}
	if err := <-failed; !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Start: %v", err)
	}
}
