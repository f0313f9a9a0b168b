package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A full disk has room for an empty file, and for nothing else.
func TestCheckStateDirFull(t *testing.T) {
	dir := t.TempDir()
	switch err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); {
	case errors.Is(err, syscall.EPERM):
		t.Skip("only root can mount a small disk")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, "full", StateDir(dir), Fail, "no space left on device", "room on its disk")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
