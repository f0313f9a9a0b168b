package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/private"
)

func TestSizeOfWorkspace(t *testing.T) {
	for _, tt := range []struct {
		size   int64
		medium Medium
		access Access
		want   int64  // of what is mounted
		tmpfs  int64  // -1: none
		fails  string // empty: not
	}{
		{size: 0, want: 0, tmpfs: -1},
		{size: -1, want: 0, tmpfs: -1},
		{size: 1 << 30, want: 1 << 30, tmpfs: -1},
		{size: 1<<30 + 4097, want: 1<<30 + 4096, tmpfs: -1},
		{size: 16 << 20, medium: MediumDisk, want: 16 << 20, tmpfs: -1},
		{size: 16<<20 - 1, fails: "a workspace cannot have 16777215 bytes"},
		{size: 1 << 60, fails: "a workspace cannot have"},
		{size: 0, medium: MediumMemory, tmpfs: 512 << 20},
		{size: -1, medium: MediumMemory, tmpfs: 0},
		{size: 64 << 20, medium: MediumMemory, tmpfs: 64 << 20},
		{size: 1, medium: MediumMemory, fails: "a workspace cannot have 1 bytes"},
		{medium: "tape", fails: `unknown medium "tape"`},
		{size: 64 << 20, access: AccessReadWrite, want: 0, tmpfs: -1}, // not Corral's to limit
		{size: 64 << 20, medium: MediumMemory, access: AccessReadOnly, tmpfs: -1},
	} {
		c := Config{Engine: noEngine{}, StateDir: "/var/lib/corral", Isolation: Isolation{User: "1000:1000"}, Workspace: Workspace{Size: tt.size, Medium: tt.medium, Access: tt.access}}
		if tt.access != "" {
			c.Workspace.Dir = testdir.New(t)
		}
		s, err := newSetup(c)
		if tt.fails != "" {
			if !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), tt.fails) || corral.Hint(err) == "" {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		plan, tmpfs := s.plan(), int64(-1)
		for _, f := range plan.Tmpfs {
			if f.Target == Workdir {
				tmpfs = f.Size
				if !f.Exec || f.Mode != 0o1777 || f.Inodes != f.Size/pageOf {
					t.Errorf("%+v: %+v", tt, f)
				}
			}
		}
		mounted := len(plan.Mounts) > 0 && plan.Mounts[0].Target == Workdir
		if mounted == (tmpfs >= 0) || tmpfs != tt.tmpfs || mounted && plan.Mounts[0].Size != tt.want {
			t.Errorf("%+v: %+v, %+v", tt, plan.Mounts, plan.Tmpfs)
		}
	}
}

// Where a size cannot be had it is refused, and never left out.
func TestSizeRefused(t *testing.T) {
	for _, tt := range []struct {
		info   engine.Info
		change func(*Config)
		want   string // empty: it is not refused, for that
	}{
		{engine.Info{Address: "tcp://there:2376"}, nil, "a private workspace cannot be limited to 67108864 bytes: it is a volume of the engine at tcp://there:2376"},
		{engine.Info{Address: "unix:///run/user/1000/docker.sock", Local: true, Rootless: true}, nil, "the engine at unix:///run/user/1000/docker.sock is rootless"},
		{engine.Info{}, func(c *Config) { c.Workspace.Medium = MediumMemory }, ""},
		{engine.Info{}, func(c *Config) { c.Workspace.Size = 0 }, ""},
	} {
		c := Config{Engine: noEngine{}, StateDir: "/var/lib/corral", Isolation: Isolation{User: "1000:1000"}, Workspace: Workspace{Size: 64 << 20}}
		if tt.change != nil {
			tt.change(&c)
		}
		_, refusals, err := c.Explain(tt.info)
		switch {
		case len(refusals) > 0:
			t.Error(refusals)
		case tt.want == "" && err != nil:
			t.Errorf("%+v: %v", tt.info, err)
		case tt.want == "":
		case !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(corral.Hint(err), "sandbox.workspaceMedium: memory"):
			t.Errorf("%v\nhint: %s\nwant %s", err, corral.Hint(err), tt.want)
		}
	}
}

// A workspace keeps the size that it was made with, and one that may take more
// than is configured is refused.
func TestSizeOfWorkspaceThatIsThere(t *testing.T) {
	for _, tt := range []struct {
		has, want int64
		fails     string
	}{
		{0, 0, ""},
		{64 << 20, 64 << 20, ""},
		{64 << 20, 0, ""},
		{64 << 20, 128 << 20, ""},
		{64 << 20, 32 << 20, "the workspace of the sandbox main was made with 67108864, and cannot be limited to 33554432 bytes"},
		{0, 32 << 20, "the workspace of the sandbox main was made without a limit, and cannot be limited to 33554432 bytes"},
	} {
		s := &setup{Config: Config{StateDir: testdir.New(t), Name: "main", Workspace: Workspace{Size: tt.want}, Log: slog.New(slog.DiscardHandler)}}
		if err := os.MkdirAll(workspaceDir(s.StateDir, "main-1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if tt.has > 0 {
			sparse(t, private.Image(workspaceDir(s.StateDir, "main-1")), tt.has)
		}
		err := s.checkPrivate("main-1")
		switch {
		case tt.fails == "" && err != nil:
			t.Errorf("%+v: %v", tt, err)
		case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(corral.Hint(err), "corral sandbox rm main")):
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func sparse(t *testing.T, file string, size int64) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A workspace that no box refers to is removed, whichever of its files are left.
func TestSweepWorkspaces(t *testing.T) {
	state := testdir.New(t)
	if err := os.MkdirAll(filepath.Join(sandboxDir(state, "main")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Workspace: "main-kept"}, false); err != nil {
		t.Fatal(err)
	}
	if err := saveBox(state, boxRecord{Version: storeVersion, Box: Box{ID: "pool-kept"}, Workspace: "pool-kept"}); err != nil {
		t.Fatal(err)
	}
	keep := []string{".lock", "main-kept", "main-kept.img", "pool-kept.img.new"}
	dir := filepath.Join(state, workspacesDir)
	for _, name := range append([]string{"a", "a.img", "b.img", "c.img.new", "d"}, keep...) {
		file := filepath.Join(dir, name)
		if filepath.Ext(name) == "" {
			if err := os.MkdirAll(filepath.Join(file, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepWorkspaces(t.Context(), noEngine{}, state); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range list {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, keep) {
		t.Errorf("left: %v, want %v", left, keep)
	}
	if err := removeWorkspaces(t.Context(), noEngine{}, state); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestLifetime(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, tt := range []struct {
		lifetime time.Duration
		box      boxRecord
		want     bool
	}{
		{0, boxRecord{Box: Box{Created: ago(1000 * time.Hour)}}, false},
		{time.Hour, boxRecord{Box: Box{Created: ago(59 * time.Minute)}}, false},
		{time.Hour, boxRecord{Box: Box{Created: ago(61 * time.Minute)}}, true},
		// In a pool it had no owner yet.
		{time.Hour, boxRecord{Box: Box{Created: ago(10 * time.Hour)}, Taken: ago(59 * time.Minute)}, false},
		{time.Hour, boxRecord{Box: Box{Created: ago(10 * time.Hour)}, Taken: ago(61 * time.Minute)}, true},
	} {
		s := &setup{Config: Config{Lifetime: tt.lifetime}}
		if got := s.outlived(tt.box.since()); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
		_, old := PruneOptions{Lifetime: tt.lifetime}.old(Sandbox{Boxes: []Box{{ID: "x", Since: tt.box.since()}}}, time.Now())
		if old["x"] != tt.want {
			t.Errorf("%+v: pruned %v", tt, old["x"])
		}
	}
	for want, c := range map[string]Config{
		"cannot live for -1s": {Lifetime: -time.Second},
		"are too few":         {Resources: Resources{OutputRate: 1000}},
	} {
		c.Engine, c.StateDir, c.Isolation.User = noEngine{}, "/var/lib/corral", "1000:1000"
		if err := c.complete(); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A workspace that is in memory is nowhere on this machine.
func TestNoHostWorkspaceInMemory(t *testing.T) {
	e, err := New(Config{Engine: hereEngine{}, StateDir: filepath.Join(testdir.New(t), "state"), Isolation: Isolation{User: "1000:1000"}, Workspace: Workspace{Medium: MediumMemory}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if dir, err := e.HostWorkspace(t.Context()); dir != "" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
}

// hereEngine is an engine on this machine. It has no other method.
type hereEngine struct{ engine.Engine }

func (hereEngine) Info(context.Context) (engine.Info, error) { return engine.Info{Local: true}, nil }
