package files_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// makeDeep makes a tree that is deeper than directories are opened, of a user's.
func makeDeep(t *testing.T, dir string, uid int, mode os.FileMode) {
	t.Helper()
	var made []string
	for at, n := dir, 0; n < 100; n++ {
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		made = append(made, at)
		at = filepath.Join(at, "d")
	}
	for i := range made {
		name := made[len(made)-1-i]
		if err := errors.Join(os.Lchown(name, uid, uid), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// A breaking context ends after it has been asked for a number of times.
type breaking struct {
	context.Context
	left int
}

func (b *breaking) Err() error {
	if b.left--; b.left < 0 {
		return context.Canceled
	}
	return nil
}

// A removal that is broken off leaves nothing beside what it was to remove, where the next
// would not find it.
func TestRemovalBrokenOff(t *testing.T) {
	work := testdir.New(t)
	dir := filepath.Join(work, "tree")
	broken := 0
	for n := 50; n < 150; n += 5 {
		makeDeep(t, dir, os.Geteuid(), 0o700)
		if err := files.RemoveTree(&breaking{t.Context(), n}, dir); err != nil {
			broken++
		}
		if entries, err := os.ReadDir(work); err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "tree" {
			t.Fatalf("after %d steps there are %v, %v", n, entries, err)
		}
		if err := files.RemoveTree(t.Context(), dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if broken == 0 {
		t.Error("none was broken off")
	}
}

// Directories that their owner may not write to are removed, however deep they are.
func TestRemoveDeepReadOnly(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = 12345
	}
	work := testdir.New(t)
	if err := os.Lchown(work, uid, uid); err != nil {
		t.Fatal(err)
	}
	both(t, files.Directory{Path: work, Root: "/workspace", User: &files.User{UID: uid, GID: uid}}, func(t *testing.T, f files.FS) {
		makeDeep(t, filepath.Join(work, "tree"), uid, 0o500)
		if err := f.Remove(t.Context(), "tree", true); err != nil {
			if len(err.Error()) > 300 {
				t.Fatal(strings.TrimSpace(err.Error()[:300]))
			}
			t.Fatal(err)
		}
	})
}
