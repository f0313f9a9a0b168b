package place

import (
	"os"
	"path/filepath"
	"testing"
)

// After the machine was started anew an inode may be another, and nothing is in
// use that was.
func TestAfterARestart(t *testing.T) {
	now := Place{"m", "now", "mnt:[1]", "2:2"}
	if !(Place{"m", "before", "mnt:[1]", "1:1"}).Sees(now, false) {
		t.Error("what is left from before is never removed")
	}
	if p := Parse(now.String()); p != now {
		t.Errorf("%+v", p)
	}
	if p := Parse("x"); p.Sees(now, true) || p.Machine != "x" {
		t.Errorf("%+v", p)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if Of(filepath.Join(dir, "x"), true) != Of(filepath.Join(dir, "gone"), true) || Of(dir, false) != Of(filepath.Join(dir, "x"), true) {
		t.Error("an ephemeral directory is not known by the one that it is in")
	}
}
