//go:build e2e

package sandbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// elsewhere is an engine that does not see this machine's files.
type elsewhere struct{ *docker.Engine }

func (e elsewhere) Info(ctx context.Context) (engine.Info, error) {
	info, err := e.Engine.Info(ctx)
	info.Local = false
	return info, err
}

// A private workspace that is a volume of the engine stays while the sandbox does,
// and goes with it, however that goes.
func TestVolumes(t *testing.T) {
	b := newBench(t)
	engine := elsewhere{b.engine}
	b.cfg.Engine = engine
	b.cfg.WardenPath = ownWarden(t, b)
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	volumes := func() map[string]bool {
		t.Helper()
		list, err := api.VolumeList(t.Context(), volume.ListOptions{Filters: filters.NewArgs(filters.Arg("name", "corral-workspace-volumes-"), filters.Arg("name", "corral-workspace-pool-"))})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, v := range list.Volumes {
			names[v.Name] = true
		}
		return names
	}
	before := volumes() // of others
	mine := func(want int) (name string) {
		t.Helper()
		n := 0
		for v := range volumes() {
			if !before[v] {
				name = v
				n++
			}
		}
		if n != want {
			t.Errorf("there are %d volumes, want %d", n, want)
		}
		return name
	}
	call := func(name string, ephemeral bool) *sandbox.Executor {
		t.Helper()
		e := b.open(func(c *sandbox.Config) { c.Name, c.Ephemeral = "volumes-"+name, ephemeral })
		ended(t, begin(t, e, "", "test -d /workspace"), 0)
		return e
	}

	e := call("removed", false)
	name := mine(1)
	if err := engine.RemoveVolume(t.Context(), name); err == nil || !strings.Contains(err.Error(), "remove the volume "+name) {
		t.Errorf("a volume in use was removed: %v", err)
	}
	ended(t, begin(t, e, "", "echo kept > /tmp/x"), 0)
	if err := e.Configure(b.like(limit(100))); err != nil { // another container
		t.Fatal(err)
	}
	ended(t, begin(t, e, "", "test ! -e /tmp/x"), 0)
	if again := mine(1); again != name {
		t.Errorf("the new container has the volume %s, the old one had %s", again, name)
	}
	if err := e.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	mine(0)
	if err := engine.RemoveVolume(t.Context(), name); err != nil {
		t.Errorf("a volume that is gone: %v", err)
	}

	e = call("pruned", false)
	mine(1)
	if removed, err := e.Prune(t.Context(), sandbox.PruneOptions{Idle: time.Nanosecond}); err != nil || len(removed) != 1 {
		t.Errorf("%v, %v", removed, err)
	}
	mine(0)

	if err := call("ephemeral", true).Close(); err != nil {
		t.Error(err)
	}
	mine(0)

	// As a crash leaves it that has lost the reference.
	if err := call("swept", false).Close(); err != nil {
		t.Error(err)
	}
	mine(1)
	if err := os.RemoveAll(filepath.Join(b.cfg.StateDir, "sandboxes", "volumes-swept")); err != nil {
		t.Fatal(err)
	}
	if removed, err := sandbox.Sweep(t.Context(), engine, b.cfg.StateDir); err != nil || len(removed) != 1 {
		t.Errorf("%v, %v", removed, err)
	}
	mine(0)

	p, err := sandbox.NewPool(b.cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.fill(p, 1)
	mine(1)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	mine(0)
}

// ownWarden is a copy of the warden with a digest of its own. So the volume with it is used
// by this test alone, which can remove it.
func ownWarden(t *testing.T, b *bench) string {
	t.Helper()
	text, err := os.ReadFile(b.cfg.WardenPath)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, corral.NewID()...) // after the end of the program
	file := filepath.Join(testdir.New(t), "warden")
	if err := os.WriteFile(file, text, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	t.Cleanup(func() {
		if err := b.engine.RemoveVolume(context.Background(), "corral-warden-"+hex.EncodeToString(sum[:8])); err != nil {
			t.Error(err)
		}
	})
	return file
}
