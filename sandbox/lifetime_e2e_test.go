//go:build e2e

package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A command that writes faster than is allowed waits, and nothing is lost.
func TestOutputRate(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			e := b.open(nil)
			const mib = 12
			write := func(atLeast, atMost time.Duration) {
				t.Helper()
				begun := time.Now()
				p := begin(t, e, "", fmt.Sprintf("head -c %d /dev/zero; echo end >&2", mib<<20))
				ended(t, p, 0)
				took := time.Since(begun)
				stat, err := p.Log().Stat(t.Context())
				if err != nil || stat.Size != mib<<20+4 {
					t.Errorf("%+v, %v", stat, err)
				}
				if took < atLeast || took > atMost {
					t.Errorf("it took %v, not %v to %v", took, atLeast, atMost)
				}
			}
			write(0, 10*time.Second)
			if err := e.Configure(b.like(func(c *sandbox.Config) { c.Resources.OutputRate = 2 << 20 })); err != nil {
				t.Fatal(err)
			}
			// Less the first MiB, and what is in pipes and windows at the end, which
			// is some more of them.
			write(1500*time.Millisecond, 10*time.Second)
			if n := len(b.containers()); n != 1 {
				t.Errorf("%d containers: it has nothing to do with those", n)
			}
			// What takes all the output it can is ended as soon as without.
			p, err := e.Start(t.Context(), corral.Command{Shell: "exec cat /dev/zero", Timeout: time.Second, Grace: -1})
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if exit, err := p.Wait(t.Context()); err != nil || exit.Reason != corral.ReasonTimeout || time.Since(begun) > 5*time.Second {
				t.Errorf("%+v, %v, after %v", exit, err, time.Since(begun))
			}
		})
	}
}

// age makes a sandbox's containers older.
func (b *bench) age(by time.Duration) {
	b.t.Helper()
	for _, file := range b.boxes() {
		text, err := os.ReadFile(file)
		if err != nil {
			b.t.Fatal(err)
		}
		var rec map[string]any
		if err := json.Unmarshal(text, &rec); err != nil {
			b.t.Fatal(err)
		}
		rec["created"] = time.Now().Add(-by).UTC().Truncate(time.Second)
		if text, err = json.Marshal(rec); err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// After its lifetime a container gets no more commands, and after some time more
// those that still run are ended, which they say for good.
func TestLifetimeIsOver(t *testing.T) {
	const lifetime = time.Minute
	lived := func(c *sandbox.Config) { c.Lifetime = lifetime }
	options := sandbox.PruneOptions{Lifetime: lifetime}
	b := newBench(t)
	e := b.open(lived)
	begin(t, e, "old", "echo kept >file; exec sleep 1000")
	ended(t, begin(t, e, "", "until test -e file; do sleep 0.02; done"), 0)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// Some time later.
	b.age(lifetime + time.Minute)
	e = b.open(lived)
	ended(t, begin(t, e, "", "cat file"), 0)
	if n := len(b.containers()); n != 2 {
		t.Errorf("%d containers", n)
	}
	if removed, err := e.Prune(t.Context(), options); err != nil || len(removed) != 0 {
		t.Errorf("%v, %v", removed, err)
	}
	if p, err := e.Attach(t.Context(), "old"); err != nil {
		t.Fatal(err)
	} else if err := p.Signal(t.Context(), corral.SIGCONT); err != nil {
		t.Errorf("it was ended within its grace: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// And later still.
	b.age(lifetime + sandbox.LifetimeGrace + time.Minute)
	e = b.open(lived)
	p, err := e.Attach(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Prune(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	says := func(p corral.Process) {
		t.Helper()
		if _, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), "the sandbox's lifetime of 1m0s was over (sandbox.lifetime)") {
			t.Errorf("%v", err)
		}
	}
	says(p)
	b.await(0)
	ended(t, begin(t, e, "", "cat file"), 0)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = b.open(nil)
	if p, err = e.Attach(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	says(p)
}

// A sandbox that no executor has open is ended, too, and its commands say so later: also
// if the program that ended it stopped before it saw the container stop.
func TestLifetimeOfWhatNobodyUses(t *testing.T) {
	for _, blind := range []bool{false, true} {
		b := newBench(t)
		e := b.open(nil)
		begin(t, e, "old", "exec sleep 1000")
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		b.age(time.Hour)
		if _, err := sandbox.Prune(t.Context(), &blindEngine{Engine: b.engine, blind: blind}, b.cfg.StateDir, func(sandbox.Sandbox) sandbox.PruneOptions {
			return sandbox.PruneOptions{Lifetime: time.Minute}
		}); err != nil {
			t.Fatal(err)
		}
		if !blind {
			b.await(0)
		}
		p, err := b.open(nil).Attach(t.Context(), "old")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), "lifetime of 1m0s") {
			t.Errorf("blind %t: %v", blind, err)
		}
		b.await(0)
	}
}

// A blindEngine does not tell any more, once it has removed a container, what
// became of it.
type blindEngine struct {
	*docker.Engine
	blind   bool
	removed atomic.Bool
}

func (e *blindEngine) Remove(ctx context.Context, id string) error {
	e.removed.Store(e.blind)
	return e.Engine.Remove(ctx, id)
}

func (e *blindEngine) Inspect(ctx context.Context, id string) (engine.Container, error) {
	if e.removed.Load() {
		return engine.Container{}, errors.New("the engine is blind")
	}
	return e.Engine.Inspect(ctx, id)
}

// Also while it is open: the next command goes elsewhere, and what runs stays.
func TestLifetimeWhileUsed(t *testing.T) {
	b := newBench(t)
	e := b.open(func(c *sandbox.Config) { c.Lifetime = 8 * time.Second })
	p := begin(t, e, "", "touch here; until test -e go; do sleep 0.05; done; test -e /tmp/mine")
	ended(t, begin(t, e, "", "touch /tmp/mine"), 0)
	first := b.containers()
	time.Sleep(time.Until(created(t, b).Add(8100 * time.Millisecond)))
	ended(t, begin(t, e, "", "test -e here && test ! -e /tmp/mine"), 0)
	if n := len(b.containers()); n != 2 {
		t.Errorf("%d containers", n)
	}
	ended(t, begin(t, e, "", "touch go"), 0)
	ended(t, p, 0)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := b.containers()
		if n := 0; len(left) > 0 {
			for name := range first {
				if _, there := left[name]; there {
					n++
				}
			}
			if n == 0 {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%v is left of %v", left, first)
		}
	}
}
