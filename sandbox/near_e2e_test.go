//go:build e2e

package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A counted engine counts how often it is asked how it is.
type counted struct {
	*docker.Engine
	infos atomic.Int32
}

func (c *counted) Info(ctx context.Context) (engine.Info, error) {
	c.infos.Add(1)
	return c.Engine.Info(ctx)
}

// A plain engine says nothing that engine.Engine does not have.
type plain struct{ engine.Engine }

// A command in a container that is there does not wait for an engine to say how it
// is. What it finds is the same as by that.
func TestWarmSandboxAsksLittle(t *testing.T) {
	for _, tt := range []struct {
		name  string
		of    func(*counted) engine.Engine
		infos int32
	}{
		{"near", func(c *counted) engine.Engine { return c }, 0},
		{"plain", func(c *counted) engine.Engine { return plain{c} }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := &counted{Engine: b.engine}
			b.cfg.Engine = tt.of(c)
			e := b.open(nil)
			ended(t, begin(t, e, "", "true"), 0)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			made := c.infos.Swap(0)
			if made == 0 {
				t.Error("the container was made without the engine's word")
			}
			e = b.open(nil)
			ended(t, begin(t, e, "", "true"), 0)
			if got := c.infos.Load(); got != tt.infos {
				t.Errorf("it was asked %d times, want %d", got, tt.infos)
			}
			if n := len(b.containers()); n != 1 {
				t.Errorf("%d containers", n)
			}
		})
	}
}

// Another warden, and another configuration, have a container made, which is not
// looked for twice.
func TestNearSandboxThatDoesNotFit(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	ended(t, begin(t, e, "", "true"), 0)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(b.cfg.WardenPath)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(b.dir, "other-warden")
	if err := os.WriteFile(other, content, 0o755); err != nil {
		t.Fatal(err)
	}
	e = b.open(func(c *sandbox.Config) { c.WardenPath = other })
	ended(t, begin(t, e, "", "true"), 0)
	b.await(1) // the first one is not used any more
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = b.open(func(c *sandbox.Config) { c.WardenPath, c.Resources.Pids = other, 99 })
	ended(t, begin(t, e, "", "true"), 0)
	b.await(1)
}
