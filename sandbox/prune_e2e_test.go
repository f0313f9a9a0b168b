//go:build e2e

package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral/sandbox"
)

// aged has a sandbox have been used, and its containers made, some time ago.
func (b *bench) aged(name string, unused time.Duration) {
	b.t.Helper()
	at := time.Now().Add(-unused)
	file := filepath.Join(b.cfg.StateDir, "sandboxes", name, "used")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		b.t.Fatal(err)
	}
}

func TestPrune(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	prune := func(o sandbox.PruneOptions, want int) {
		t.Helper()
		removed, err := e.Prune(t.Context(), o)
		if err != nil || len(removed) != want {
			t.Errorf("%+v: removed %v, %v; want %d", o, removed, err, want)
		}
	}
	prune(sandbox.PruneOptions{Idle: 1, Age: 1}, 0) // there is nothing yet
	ended(t, begin(t, e, "", "echo kept >file"), 0)
	b.aged("default", time.Hour)
	time.Sleep(time.Until(created(t, b).Add(1100 * time.Millisecond)))
	prune(sandbox.PruneOptions{}, 0)
	prune(sandbox.PruneOptions{Idle: 2 * time.Hour, Age: time.Hour}, 0)

	// What is old is left alone while something runs in it, and then it goes;
	// the workspace stays.
	p := begin(t, e, "", "until test -e go; do sleep 0.05; done")
	prune(sandbox.PruneOptions{Age: time.Second}, 0)
	ended(t, begin(t, e, "", "cat file && touch go"), 0)
	ended(t, p, 0)
	b.await(1)
	b.awaitBoxes(1)
	ended(t, begin(t, e, "", "cat file"), 0)

	// One that is idle goes with its workspace, unless something runs in it.
	b.aged("default", time.Hour)
	p = begin(t, e, "", "until test -e gone; do sleep 0.05; done")
	prune(sandbox.PruneOptions{Idle: time.Minute}, 0)
	ended(t, begin(t, e, "", "touch gone"), 0)
	ended(t, p, 0)
	b.aged("default", time.Hour)
	for end := time.Now().Add(10 * time.Second); len(b.containers()) > 0; time.Sleep(20 * time.Millisecond) {
		if _, err := e.Prune(t.Context(), sandbox.PruneOptions{Idle: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("it was not removed")
		}
	}
	ended(t, begin(t, e, "", "test ! -e file"), 0)
}

func created(t *testing.T, b *bench) time.Time {
	t.Helper()
	s, err := sandbox.Find(b.cfg.StateDir, "default")
	if err != nil || len(s.Boxes) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	return s.Boxes[0].Created
}

// Each executor prunes the sandboxes that no executor has open, and leaves the others.
func TestPruneAll(t *testing.T) {
	b := newBench(t)
	named := func(name string) *sandbox.Executor {
		e := b.open(func(c *sandbox.Config) { c.Name, c.Owner, c.Key = name, "main", "agent:main:"+name })
		ended(t, begin(t, e, "", "echo >file"), 0)
		return e
	}
	named("open")
	for _, name := range []string{"shut", "fresh", "forgotten"} {
		if err := named(name).Close(); err != nil {
			t.Fatal(err)
		}
	}
	b.await(4)
	for name, unused := range map[string]time.Duration{"open": time.Hour, "shut": time.Hour, "forgotten": 8 * 24 * time.Hour} {
		b.aged(name, unused)
	}
	// Of its commands nothing is kept.
	if err := os.RemoveAll(filepath.Join(b.cfg.StateDir, "sandboxes", "forgotten", "logs")); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	removed, err := sandbox.Prune(t.Context(), b.engine, b.cfg.StateDir, func(s sandbox.Sandbox) sandbox.PruneOptions {
		seen[s.Name] = s.Key
		return sandbox.PruneOptions{Idle: time.Minute}
	})
	if err != nil || len(removed) != 2 || len(seen) != 4 || seen["shut"] != "agent:main:shut" {
		t.Errorf("%v, %v, %v", removed, err, seen)
	}
	b.await(2)
	for name, want := range map[string]int{"open": 1, "fresh": 1, "shut": 0} {
		s, err := sandbox.Find(b.cfg.StateDir, name)
		if err != nil || len(s.Boxes) != want || (s.Workspace != "") != (want == 1) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	list, err := os.ReadDir(filepath.Join(b.cfg.StateDir, "workspaces"))
	if err != nil || len(list) != 2 {
		t.Errorf("workspaces %v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(b.cfg.StateDir, "sandboxes", "forgotten")); !os.IsNotExist(err) {
		t.Errorf("it was not forgotten: %v", err)
	}
}

// A sandbox is unused when it has no container, no workspace and no records of commands,
// also if another program removed it.
func TestUnused(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	want := func(when string, want bool) {
		t.Helper()
		if got, err := e.Unused(); err != nil || got != want {
			t.Errorf("%s: %t, %v", when, got, err)
		}
	}
	want("when it is new", true)
	p := begin(t, e, "", "true")
	want("with a command", false)
	ended(t, p, 0)
	want("with a container, and records", false)
	if err := p.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("with a container", false)
	q := begin(t, e, "", "true")
	ended(t, q, 0)
	if err := b.open(nil).Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("with records", false)
	if err := q.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("with nothing", true)
}
