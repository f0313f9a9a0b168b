package streamexec

import (
	"bytes"
	"os"
	"testing"
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
