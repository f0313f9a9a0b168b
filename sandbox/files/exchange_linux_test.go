package files

import (
	"os"
	"path/filepath"
	"testing"
)

// What is replaced may have become a directory since it was looked at.
func TestExchange(t *testing.T) {
	at := t.TempDir()
	for name, content := range map[string]string{"temp": "new", "file": "old", "dir/in": "kept"} {
		name = filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := openAnchor(at, false)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	d, err := a.walk(".")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if exchange(d, "temp", "dir") || exchange(d, "temp", "none") {
		t.Error("a directory was replaced, or nothing was")
	}
	has := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(at, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	has("temp", "new")
	has("dir/in", "kept")
	if !exchange(d, "temp", "file") {
		t.Error("a file was not replaced")
	}
	has("file", "new")
	if _, err := os.Lstat(filepath.Join(at, "temp")); !os.IsNotExist(err) {
		t.Errorf("the old file is still there: %v", err)
	}
}
