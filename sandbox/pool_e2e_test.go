//go:build e2e

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral/sandbox"
)

func (b *bench) pool(size int, change func(*sandbox.Config)) *sandbox.Pool {
	b.t.Helper()
	p, err := sandbox.NewPool(b.like(change), size)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.t.Error(err)
		}
	})
	b.fill(p, size)
	return p
}

func (b *bench) fill(p *sandbox.Pool, size int) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); p.Ready() != size; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%d containers are ready, want %d", p.Ready(), size)
		}
	}
}

func TestPool(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			p := b.pool(2, nil)
			ready := b.containers()
			if removed, err := sandbox.Sweep(t.Context(), b.engine, b.cfg.StateDir); err != nil || len(removed) > 0 {
				t.Errorf("swept %v, %v", removed, err)
			}
			with := func(name string, pids int64) func(*sandbox.Config) {
				return func(c *sandbox.Config) { c.Name, c.Resources.Pids, c.Pool = name, pids, p }
			}
			mine := func(name string) string {
				t.Helper()
				s, err := sandbox.Find(b.cfg.StateDir, name)
				if err != nil || len(s.Boxes) != 1 {
					t.Fatalf("%+v, %v", s, err)
				}
				return s.Boxes[0].Container
			}
			one, two := b.open(with("one", 0)), b.open(with("two", 0))
			ended(t, begin(t, one, "", "echo one >file"), 0)
			ended(t, begin(t, two, "", "test ! -e file"), 0)
			if _, ok := ready[mine("one")]; !ok || mine("one") == mine("two") {
				t.Errorf("%s and %s, of %v", mine("one"), mine("two"), ready)
			}
			// One that is configured otherwise is made for whom it is.
			ended(t, begin(t, b.open(with("other", 100)), "", "true"), 0)
			b.fill(p, 2)
			// The next life goes on where this one was.
			was := mine("one")
			if err := one.Close(); err != nil {
				t.Fatal(err)
			}
			one = b.open(with("one", 0))
			ended(t, begin(t, one, "", "cat file"), 0)
			if mine("one") != was {
				t.Error("it got another container")
			}
			// A container of the pool that dies is not used.
			for name := range b.containers() {
				if !slices.Contains([]string{mine("one"), mine("two"), mine("other")}, name) {
					if err := b.engine.Remove(t.Context(), name); err != nil {
						t.Fatal(err)
					}
				}
			}
			ended(t, begin(t, b.open(with("three", 0)), "", "true"), 0)
			if err := p.Configure(b.cfg, 0); err != nil {
				t.Fatal(err)
			}
			b.fill(p, 0)
			for _, name := range []string{"one", "two", "three", "other"} {
				e := b.open(with(name, 0))
				if err := errors.Join(e.Remove(t.Context()), e.Close()); err != nil {
					t.Fatal(err)
				}
			}
			b.nothing("one")
		})
	}
}

// What the pool of a program that was killed had is swept.
func TestPoolIsKilled(t *testing.T) {
	b := newBench(t)
	b.perform(script{Name: "default", Pids: []int64{100}, Pool: 2, Die: "claimed"}, time.Minute)
	if len(b.containers()) == 0 {
		t.Error("nothing was left: this tests nothing")
	}
	b.nothing("default")
}

// The first command of a sandbox that takes its container from a pool is there
// within a few milliseconds, and as many at once as there are containers.
func TestPoolIsFast(t *testing.T) {
	n := 20
	if text := os.Getenv("CORRAL_POOL"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(t)
	p := b.pool(n, nil)
	var took []time.Duration
	var mu sync.Mutex
	claim := func(name string) {
		began := time.Now()
		cfg := b.like(func(c *sandbox.Config) { c.Name, c.Pool = name, p })
		e, err := sandbox.New(cfg)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
		ended(t, begin(t, e, "", "true"), 0)
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(began))
	}
	p.Freeze()
	for k := range n / 2 {
		claim("one-" + strconv.Itoa(k))
	}
	slices.Sort(took)
	t.Logf("one after the other: p50 %v, p95 %v", took[len(took)/2], took[len(took)*95/100])
	if got := took[len(took)/2]; got > 100*time.Millisecond { // on a machine that has better things to do
		t.Errorf("half of them take more than %v", got)
	}
	began := time.Now()
	var all sync.WaitGroup
	for k := range n / 2 {
		all.Go(func() { claim("many-" + strconv.Itoa(k)) })
	}
	all.Wait()
	t.Logf("%d at once: %v", n/2, time.Since(began))
	if left := p.Ready(); left != 0 {
		t.Errorf("%d were not taken", left)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	names, err := filepath.Glob(filepath.Join(b.cfg.StateDir, "sandboxes", "*"))
	errs = append(errs, err)
	for _, dir := range names {
		e := b.open(func(c *sandbox.Config) { c.Name = filepath.Base(dir) })
		errs = append(errs, e.Remove(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
