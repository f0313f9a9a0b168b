//go:build e2e && linux

package sandbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

func TestPause(t *testing.T)           { testPause(t, enginetest.New(t)) }
func TestPauseContainerd(t *testing.T) { testPause(t, enginetest.Containerd(t)) }

// stubborn is an engine that cannot freeze a container so many times.
type stubborn struct {
	engine.Engine
	fails int
}

func (s *stubborn) Pause(ctx context.Context, id string) error {
	if s.fails--; s.fails >= 0 {
		return corral.Errorf(corral.ErrUnavailable, "", "unable to freeze")
	}
	return s.Engine.(engine.PauseEngine).Pause(ctx, id)
}

func (s *stubborn) Resume(ctx context.Context, id string) error {
	return s.Engine.(engine.PauseEngine).Resume(ctx, id)
}

// What runs in a sandbox makes no progress while it is paused, also in another life of the
// program, and goes on when it is resumed or gets a command.
func testPause(t *testing.T, eng engine.Engine) {
	state, warden := filepath.Join(testdir.New(t), "state"), wardenbintest.Build(t)
	open := func() *sandbox.Executor {
		e, err := sandbox.New(sandbox.Config{Engine: eng, StateDir: state, Name: "box", Image: images.Busybox, WardenPath: warden})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	written := func(p corral.Process) int64 {
		st, err := p.Log().Stat(t.Context())
		ok(err)
		return st.Size
	}
	progress := func(p corral.Process, want bool) {
		t.Helper()
		before := written(p)
		for end := time.Now().Add(10 * time.Second); want && written(p) == before; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it makes no progress")
			}
		}
		if !want {
			time.Sleep(300 * time.Millisecond) // what it wrote before may be on its way
			before = written(p)
			time.Sleep(500 * time.Millisecond)
			if now := written(p); now != before {
				t.Errorf("it wrote %d bytes while it was paused", now-before)
			}
		}
	}
	if err := sandbox.Pause(t.Context(), eng, state, "box"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("before there is one: %v", err)
	}
	e := open()
	defer func() {
		ok(e.Remove(context.WithoutCancel(t.Context())))
		ok(e.Close())
	}()
	p := begin(t, e, "counter", "while :; do echo x; sleep 0.05; done")
	progress(p, true)
	for range 2 { // the second time it is paused already
		ok(sandbox.Pause(t.Context(), eng, state, "box"))
	}
	progress(p, false)
	if s, err := sandbox.Find(state, "box"); err != nil || !s.Paused {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := e.DialPort(t.Context(), 80); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("a port while it is paused: %v", err)
	}
	for range 2 {
		ok(sandbox.Resume(t.Context(), eng, state, "box"))
	}
	progress(p, true)

	// An engine that gives up is asked again, but not for ever.
	if err := sandbox.Pause(t.Context(), &stubborn{eng, 1 << 20}, state, "box"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("an engine that cannot freeze: %v", err)
	}
	progress(p, true)
	ok(sandbox.Pause(t.Context(), &stubborn{eng, 2}, state, "box"))
	progress(p, false)
	ok(sandbox.Resume(t.Context(), eng, state, "box"))

	// So does what one of its processes is told.
	told := begin(t, e, "told", "trap 'exit 5' TERM; while :; do sleep 0.05; done")
	time.Sleep(300 * time.Millisecond) // until it has its trap
	ok(sandbox.Pause(t.Context(), eng, state, "box"))
	ok(told.Signal(t.Context(), corral.SIGTERM))
	if exit, err := told.Wait(t.Context()); err != nil || exit.Code != 5 {
		t.Errorf("a process that was told to end while it was paused: %+v, %v", exit, err)
	}
	progress(p, true)

	// What was frozen by the engine's own means stays so: whoever wants something of it is told.
	status, err := e.Status(t.Context())
	ok(err)
	ok(eng.(engine.PauseEngine).Pause(t.Context(), status.Container.ID))
	other := open() // which has to connect first
	for _, tt := range []struct {
		at   *sandbox.Executor
		id   string
		want error
	}{{e, "byhand", corral.ErrLost}, {other, "", corral.ErrUnavailable}} {
		began := time.Now()
		_, err = tt.at.Start(t.Context(), corral.Command{ID: tt.id, Shell: "echo late"})
		if !errors.Is(err, tt.want) || !strings.Contains(corral.Hint(err), "corral sandbox resume box") || time.Since(began) > 10*time.Second {
			t.Errorf("a command after %v: %v", time.Since(began), err)
		}
	}
	if err := p.Signal(t.Context(), corral.SIGWINCH); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("a signal: %v", err)
	}
	ok(other.Close())
	if list, err := sandbox.List(t.Context(), eng, state); err != nil || len(list) != 1 || !list[0].Paused {
		t.Errorf("%+v, %v", list, err)
	}
	ok(e.Resume(t.Context()))
	late, err := e.Attach(t.Context(), "byhand")
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); late, err = e.Attach(t.Context(), "byhand") {
		time.Sleep(20 * time.Millisecond) // until the warden has answered
	}
	ok(err)
	ended(t, late, 0)
	progress(p, true)

	// A command resumes it, in another life.
	ok(sandbox.Pause(t.Context(), eng, state, "box"))
	ok(e.Close())
	e = open()
	r, err := runner.Run(t.Context(), e, corral.Command{Shell: "echo awake"}, runner.Options{})
	if err != nil || !r.Exit.Success() {
		t.Fatalf("%+v, %v", r, err)
	}
	p, err = e.Attach(t.Context(), "counter")
	ok(err)
	progress(p, true)
	if s, err := sandbox.Find(state, "box"); err != nil || s.Paused {
		t.Errorf("%+v, %v", s, err)
	}
}

// The workspace is the home directory of a user with its name.
func TestHome(t *testing.T) {
	b := newBench(t)
	e := b.open(func(c *sandbox.Config) { c.Workspace.Home = "/home/user" })
	r, err := runner.Run(t.Context(), e, corral.Command{Shell: "pwd; echo $HOME; id -un; id -gn; echo in >file"}, runner.Options{})
	if err != nil || r.Stdout.Head != "/home/user\n/home/user\nuser\nuser\n" {
		t.Fatalf("%+v, %v", r, err)
	}
	f, err := e.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i, err := f.Stat(t.Context(), "/home/user/file"); err != nil || i.Size != 3 || i.Path != "/home/user/file" {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := sandbox.New(b.like(func(c *sandbox.Config) { c.Workspace.Home = "/root" })); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("a home directory elsewhere: %v", err)
	}
}
