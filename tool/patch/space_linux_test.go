package patch

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fullDisk is a workspace without enough space for a patch: a small tmpfs; or if none can
// be mounted, a Target that returns that error.
func fullDisk(t *testing.T) (dir string, target func(Target) Target) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "disk")
	if err := syscall.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	switch err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); {
	case err == nil:
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		return dir, func(tg Target) Target { return tg }
	case errors.Is(err, syscall.EPERM):
		return dir, func(tg Target) Target { return full{tg} }
	default:
		t.Fatal(err)
		return "", nil
	}
}

type full struct{ Target }

func (f full) open(ctx context.Context) (workspace, error) {
	ws, err := f.Target.open(ctx)
	return fullWorkspace{ws}, err
}

type fullWorkspace struct{ workspace }

func (w fullWorkspace) create(ctx context.Context, name string, content []byte, perm fs.FileMode, o owner) error {
	if len(content) > 60_000 {
		return errors.Join(syscall.ENOSPC, w.workspace.create(ctx, name, content[:1000], perm, o))
	}
	return w.workspace.create(ctx, name, content, perm, o)
}

func TestDiskFull(t *testing.T) {
	for kind, target := range targets {
		t.Run(kind, func(t *testing.T) {
			dir, limit := fullDisk(t)
			write(t, dir, map[string]string{"a.txt": "a\n", "b.txt": "b\n"})
			before := snapshot(t, dir)
			tool := New(Config{Target: limit(target(t, dir))})
			r := tool.Call(t.Context(), callArguments(t, patchOf("*** Update File: a.txt", "@@", "-a", "+A", "*** Delete File: b.txt", "*** Add File: new/big", "+"+strings.Repeat("x", 80_000))))
			if r.Reason != ReasonUnavailable || !strings.Contains(r.Text(), "cannot write new/big") || !strings.Contains(r.Text(), "no space left on device") && !strings.Contains(r.Text(), "No space left on device") {
				t.Errorf("%+v", r)
			}
			if d := differs(snapshot(t, dir), before); d != "" {
				t.Error(d)
			}
			if r := tool.Call(t.Context(), callArguments(t, patchOf("*** Update File: a.txt", "@@", "-a", "+A"))); r.Failed() {
				t.Errorf("a small one: %+v", r)
			}
		})
	}
}
