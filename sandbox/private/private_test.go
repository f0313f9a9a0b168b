package private

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDirectories(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "all")
	dir := filepath.Join(parent, "one")
	for range 2 {
		if size, empty, err := Make(dir); size != 0 || !empty || err != nil {
			t.Fatal(size, empty, err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(parent, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one/file", "x")
	write("one.img", "image")
	write("two.img.new", "a part of an image")
	write("record.json", "{}")
	if size, empty, err := Make(dir); size != 5 || empty || err != nil {
		t.Error(size, empty, err)
	}
	if names, err := Names(parent); err != nil || !slices.Equal(names, []string{"one", "two"}) {
		t.Error(names, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "locked", "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "locked"), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "none"} {
		if err := Remove(filepath.Join(parent, name)); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
	if names, err := Names(filepath.Join(parent, "none")); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
}
