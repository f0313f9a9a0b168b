package journal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Files with damaged pieces are found wherever Corral keeps them, and what a command
// has called so is not one of them.
func TestAside(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for _, parent := range []string{"", "host/logs/host", "node/host/logs/host", "sandboxes/main/logs", "sessions"} {
		if err := os.MkdirAll(filepath.Join(dir, parent), 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(filepath.Join(dir, parent))
		if err != nil {
			t.Fatal(err)
		}
		path, err := KeepAside(root, "journal", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, path)
		if err := root.Close(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	name := "x" + Infix + "20260101T000000Z"
	for _, file := range []string{"workspaces/w/" + name, "boxes/b/run/" + name, "sandboxes/main/exec/" + name, "sessions/sessions.jsonl", "sessions/" + name + "/a/directory"} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Aside(dir)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err := Aside(filepath.Join(dir, "none")); err != nil || len(got) > 0 {
		t.Errorf("of no directory: %q, %v", got, err)
	}
	many := filepath.Join(dir, "sessions")
	for i := range maxAside {
		if err := os.WriteFile(filepath.Join(many, name+string(rune('a'+i/26))+string(rune('a'+i%26))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Aside(dir); err != nil || len(got) != maxAside {
		t.Errorf("%d files, %v", len(got), err)
	}
}
