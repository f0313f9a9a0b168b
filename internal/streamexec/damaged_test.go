package streamexec

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A record that is cut, or of which a bit flips, is an error or says what it said: it
// never tells of another end.
func TestRecordDamaged(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r := &records{root: root}
	if err := r.write("x", record{Lost: "as it was"}); err != nil {
		t.Fatal(err)
	}
	text, err := root.ReadFile("x" + suffixRecord)
	if err != nil {
		t.Fatal(err)
	}
	look := func(b []byte) {
		if err := root.WriteFile("x"+suffixRecord, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if rec, err := r.find("x"); err == nil && rec.Lost != "as it was" {
			t.Errorf("%q: %+v", b, rec)
		}
	}
	look(text)
	for n := range text {
		look(text[:n])
		for bit := range 8 {
			flipped := bytes.Clone(text)
			flipped[n] ^= 1 << bit
			look(flipped)
		}
	}
}

// What could not be written, or was cut short by a kill, is not left for ever.
func TestRecordUnfinished(t *testing.T) {
	dir := t.TempDir()
	r, err := openRecords(dir, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := os.Mkdir(filepath.Join(dir, "x"+suffixRecord), 0o700); err != nil { // in its place
		t.Fatal(err)
	}
	if err := r.write("x", record{}); err == nil {
		t.Error("it was written over a directory")
	}
	past := time.Now().Add(-2 * time.Hour)
	for name, at := range map[string]time.Time{".old.json": past, ".new.json": time.Now()} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.prune(time.Now().Add(-time.Hour), nil); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != ".new.json" {
		t.Errorf("left: %q, %v", left, err)
	}
}
