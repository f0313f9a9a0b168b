//go:build e2e

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/traces"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// A bench is a state directory, and what sandboxes over it are like.
type bench struct {
	t      *testing.T
	dir    string // holds nothing but state
	engine *docker.Engine
	cfg    sandbox.Config
}

func newBench(t *testing.T) *bench {
	dir := testdir.New(t)
	b := &bench{t: t, dir: dir, engine: enginetest.New(t)}
	b.cfg = sandbox.Config{
		Engine: b.engine, StateDir: filepath.Join(dir, "state"), Image: images.Busybox, WardenPath: wardenbintest.Build(t),
	}
	return b
}

func (b *bench) open(change func(*sandbox.Config)) *sandbox.Executor {
	b.t.Helper()
	e, err := sandbox.New(b.like(change))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return e
}

func (b *bench) like(change func(*sandbox.Config)) sandbox.Config {
	cfg := b.cfg
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func (b *bench) containers() map[string]bool {
	b.t.Helper()
	list, err := sandbox.List(context.Background(), b.engine, b.cfg.StateDir)
	if err != nil {
		b.t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range list {
		names[c.Name] = c.Running
	}
	return names
}

// await waits until there are that many containers.
func (b *bench) await(n int) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); len(b.containers()) != n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%d containers, want %d: %v", len(b.containers()), n, b.containers())
		}
	}
}

// awaitBoxes waits until as many boxes are noted: one is for a while longer than its
// container is there.
func (b *bench) awaitBoxes(n int) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); len(b.boxes()) != n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("boxes %v, want %d", b.boxes(), n)
		}
	}
}

func (b *bench) boxes() []string {
	b.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(b.cfg.StateDir, "boxes", "*", "box.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	return dirs
}

func begin(t *testing.T, x corral.Executor, id, shell string) corral.Process {
	t.Helper()
	p, err := x.Start(t.Context(), corral.Command{ID: id, Shell: shell})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ended(t *testing.T, p corral.Process, code int) {
	t.Helper()
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != code {
		t.Errorf("%s: %+v, %v; want code %d", p.Info().ID, exit, err, code)
	}
}

func limit(pids int64) func(*sandbox.Config) {
	return func(c *sandbox.Config) { c.Resources.Pids = pids }
}

func TestConfigureWhileCommandsRun(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			e := b.open(limit(100))
			old := begin(t, e, "old", "echo kept >file; until test -e go; do sleep 0.05; done; exit 3")
			ended(t, begin(t, e, "", "until test -e file; do sleep 0.02; done"), 0)
			if err := e.Configure(b.like(limit(101))); err != nil {
				t.Fatal(err)
			}
			if n := len(b.containers()); n != 1 {
				t.Errorf("%d containers, before the next command", n)
			}
			// The next command is in a new container, with the same workspace.
			ended(t, begin(t, e, "new", "cat file && exit 4"), 4)
			b.await(2)
			// Nothing is started again, wherever it runs.
			if again := begin(t, e, "old", "echo kept >file; until test -e go; do sleep 0.05; done; exit 3"); again.Info().StartedAt != old.Info().StartedAt {
				t.Error("the command that runs was started again")
			}
			if p, err := e.Attach(t.Context(), "old"); err != nil || p.Info().PID != old.Info().PID {
				t.Errorf("Attach: %v", err)
			}
			ended(t, begin(t, e, "", "touch go"), 0)
			ended(t, old, 3)
			b.await(1)
			for _, id := range []string{"old", "new"} { // also when its container is gone
				p, err := e.Attach(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				ended(t, p, map[string]int{"old": 3, "new": 4}[id])
			}
			b.awaitBoxes(1)
			// What says the same is the same, and what is as before is new again.
			if err := e.Configure(b.like(limit(101))); err != nil {
				t.Fatal(err)
			}
			before := b.containers()
			ended(t, begin(t, e, "", "true"), 0)
			for name := range b.containers() {
				if _, same := before[name]; !same {
					t.Error("a new container for nothing")
				}
			}
		})
	}
}

// A configuration that does not work changes nothing for commands that run, and
// one that is taken back finds the container that it had.
func TestConfigureThatFails(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	ended(t, begin(t, e, "", "touch /tmp/here"), 0)
	if err := e.Configure(b.like(func(c *sandbox.Config) { c.Isolation.User = "0:0" })); err == nil {
		t.Error("root was let in")
	}
	if err := e.Configure(b.like(func(c *sandbox.Config) { c.Image = "no.such.registry.invalid/x:1" })); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), corral.Command{Shell: "true"}); err == nil {
		t.Error("started on an image that does not exist")
	}
	if err := e.Configure(b.cfg); err != nil {
		t.Fatal(err)
	}
	ended(t, begin(t, e, "", "test -e /tmp/here"), 0)
	if len(b.containers()) != 1 || len(b.boxes()) != 1 {
		t.Errorf("%v, %v", b.containers(), b.boxes())
	}
}

// Another life finds what runs in a container that was left, and removes it when
// that has ended.
func TestNextLifeDrains(t *testing.T) {
	for _, attach := range []bool{true, false} {
		b := newBench(t)
		e := b.open(limit(100))
		begin(t, e, "old", "until test -e go; do sleep 0.05; done; exit 3")
		if err := e.Configure(b.like(limit(101))); err != nil {
			t.Fatal(err)
		}
		ended(t, begin(t, e, "", "true"), 0)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		b.await(2)
		e = b.open(limit(101))
		if attach {
			p, err := e.Attach(t.Context(), "old")
			if err != nil {
				t.Fatal(err)
			}
			ended(t, begin(t, e, "", "touch go"), 0)
			ended(t, p, 3)
		} else {
			ended(t, begin(t, e, "", "touch go"), 0)
		}
		b.await(1)
		p, err := e.Attach(t.Context(), "old") // whoever it was that saw the end
		if err != nil {
			t.Fatal(err)
		}
		ended(t, p, 3)
	}
}

// Two programs with different ideas of a sandbox each have a container of it.
func TestTwoConfigurations(t *testing.T) {
	b := newBench(t)
	one, two := b.open(limit(100)), b.open(limit(101))
	for range 3 {
		ended(t, begin(t, one, "", "true"), 0)
		ended(t, begin(t, two, "", "true"), 0)
	}
	if n := len(b.containers()); n != 2 {
		t.Errorf("%d containers", n)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	b.await(1)
	ended(t, begin(t, two, "", "true"), 0)
}

func TestContainerDies(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	p := begin(t, e, "lost", "echo kept >file; sleep 60")
	ended(t, begin(t, e, "", "until test -e file; do sleep 0.02; done"), 0)
	for name := range b.containers() {
		if err := b.engine.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Wait(t.Context()); !isLost(err) {
		t.Errorf("Wait: %v", err)
	}
	ended(t, begin(t, e, "", "test -e file"), 0)
	b.await(1)
	b.awaitBoxes(1)
}

func TestRemoveAndSweepLeaveNothing(t *testing.T) {
	b := newBench(t)
	tr := traces.New(t, b.dir)
	e := b.open(nil)
	p := begin(t, e, "lost", "sleep 60")
	if tr.Look(t)["container"] != 1 {
		t.Error("there is no container")
	}
	if removed, err := sandbox.Sweep(t.Context(), b.engine, b.cfg.StateDir); err != nil || len(removed) > 0 {
		t.Errorf("swept what is in use: %v, %v", removed, err)
	}
	if err := e.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); !isLost(err) {
		t.Errorf("Wait: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	left := []string{}
	for _, dir := range []string{"boxes", "workspaces"} {
		found, err := filepath.Glob(filepath.Join(b.cfg.StateDir, dir, "[^.]*")) // but not the lock
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	if len(left) > 0 || len(b.containers()) > 0 {
		t.Errorf("left: %v, %v", left, b.containers())
	}
	if err := os.RemoveAll(b.cfg.StateDir); err != nil {
		t.Fatal(err)
	}
	tr.Gone(t)
}

func TestSweepFindsGarbage(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	ended(t, begin(t, e, "", "true"), 0)
	state := b.cfg.StateDir
	for _, dir := range []string{"boxes/.new-x-1", "boxes/x-2", "workspaces/x-3"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing is known of this container any more.
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range b.boxes() {
		if err := os.RemoveAll(filepath.Dir(file)); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := sandbox.Sweep(t.Context(), b.engine, state)
	if err != nil || len(removed) != 1 {
		t.Errorf("%v, %v", removed, err)
	}
	for _, dir := range []string{"boxes", "workspaces"} {
		list, err := os.ReadDir(filepath.Join(state, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.IsDir() && (dir == "boxes" || f.Name() == "x-3") {
				t.Errorf("left: %s/%s", dir, f.Name())
			}
		}
	}
	e = b.open(nil)
	ended(t, begin(t, e, "", "true"), 0)
}

func isLost(err error) bool { return errors.Is(err, corral.ErrLost) }
