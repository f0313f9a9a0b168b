package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file or directory that is not there is not synced.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Sync(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sync(path); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if err := SyncDir(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there")
	}
	if err := Write(filepath.Join(dir, "none", "f"), nil, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
