package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// After a line that could not be written, and was cut off, the next one is written. With
// Sync the cut is on disk before.
func TestFileAfterCut(t *testing.T) {
	for sync, want := range map[bool]string{false: "write cut write", true: "write cut sync write sync"} {
		dir := t.TempDir()
		j, _ := mustOpen(t, dir, Options{Sync: sync})
		var ops []string
		j.Fail(func(op string) error {
			if ops = append(ops, op); len(ops) == 1 {
				return syscall.ENOSPC
			}
			return nil
		})
		if err := j.Append(lineOf(t, "lost")); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		say(t, j, "one")
		if got := strings.Join(ops, " "); got != want {
			t.Errorf("sync %v: %s, want %s", sync, got, want)
		}
		if n := int64(len(lineOf(t, "one"))); j.Size() != n {
			t.Errorf("%d bytes, want %d", j.Size(), n)
		}
		j.Close()
		if _, said := mustOpen(t, dir, Options{}); !slices.Equal(said, []string{"one"}) {
			t.Errorf("sync %v: %q", sync, said)
		}
	}
}

// A write or a cut that the file refuses is an error.
func TestFileRefuses(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{})
	f := j.f
	var err error
	if j.f, err = os.Open(f.Name()); err != nil { // it cannot be written to
		t.Fatal(err)
	}
	for range 2 {
		if err := j.Append(lineOf(t, "one")); err == nil || j.torn == nil || j.Size() != 0 {
			t.Errorf("%v, %v, %d bytes", err, j.torn, j.Size())
		}
	}
	j.f.Close()
	j.f = f
	say(t, j, "one")
}

// A compaction that fails changes nothing, and what is added is written on.
func TestFileNotCompacted(t *testing.T) {
	for _, failing := range []string{"snapshot", "write", "sync", "rename", "syncdir"} {
		dir := t.TempDir()
		j, _ := mustOpen(t, dir, Options{})
		say(t, j, "one")
		j.anew = true
		old := j.f
		j.Fail(func(op string) error {
			if op == failing {
				return syscall.EIO
			}
			return nil
		})
		err := j.Compact(func() ([]byte, error) {
			if failing == "snapshot" {
				return nil, syscall.EIO
			}
			return lineOf(t, "snapshot"), nil
		})
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", failing, err)
		}
		j.Fail(nil)
		replaced := failing == "syncdir" // the name is the new file's, if nothing is cut
		if _, err := old.Stat(); (err != nil) != replaced || j.Grown() == replaced {
			t.Errorf("%s: the old file: %v; grown %t", failing, err, j.Grown())
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("%s: %v, %v", failing, names, err)
		}
		say(t, j, "two")
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		want := []string{"one", "two"}
		if replaced {
			want[0] = "snapshot"
		}
		if _, said := mustOpen(t, dir, Options{}); !slices.Equal(said, want) {
			t.Errorf("%s: %q", failing, said)
		}
	}
	j, _ := mustOpen(t, t.TempDir(), Options{})
	err := j.Compact(func() ([]byte, error) { return nil, j.Close() })
	if err != nil || j.Grown() {
		t.Errorf("closed meanwhile: %v", err)
	}
}

// It is compacted once it has grown to four times of what it was, or of what is short.
func TestGrown(t *testing.T) {
	for size, want := range map[int64]bool{Growth*CompactFrom - 1: false, Growth * CompactFrom: true} {
		if Grown(size, 0) != want || Grown(size, CompactFrom) != want || Grown(size, 2*CompactFrom) || Grown(2*size, 2*CompactFrom) != want {
			t.Errorf("%d bytes", size)
		}
	}
	j, _ := mustOpen(t, t.TempDir(), Options{})
	text := strings.Repeat("x", CompactFrom)
	for range 3 {
		say(t, j, text)
	}
	if j.Grown() {
		t.Errorf("with %d bytes", j.Size())
	}
	if say(t, j, text); !j.Grown() {
		t.Errorf("with %d bytes", j.Size())
	}
}

// Who opens a journal while another program replaces it gets the replacement.
func TestPlaceReplaced(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	path, locked := filepath.Join(dir, testName), 0
	p := Place{Root: root, Name: testName, Lock: func(*os.File) error {
		if locked++; locked < 3 {
			return errors.Join(os.WriteFile(path+".other", []byte("new"), 0o600), os.Rename(path+".other", path))
		}
		return nil
	}}
	f, err := p.Open()
	if err != nil || locked != 3 {
		t.Fatalf("locked %d times, %v", locked, err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	is, ierr := p.Is(f)
	if err := errors.Join(err, ierr); err != nil || string(b) != "new" || !is {
		t.Errorf("%q, %t, %v", b, is, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if is, err := p.Is(f); is || err != nil {
		t.Errorf("removed: %t, %v", is, err)
	}
	p.Lock = func(*os.File) error { return syscall.EIO }
	if _, err := p.Open(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := p.Replace(func(io.Writer) error { return nil }); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

// brokenDisk is a file whose end cannot be read.
type brokenDisk string

func (b brokenDisk) ReadAt(p []byte, at int64) (int, error) {
	if n := copy(p, b[at:]); n > 0 {
		return n, nil
	}
	return 0, syscall.EIO
}

// What cannot be read is an error, and not the end of the journal.
func TestReadFails(t *testing.T) {
	for _, text := range []string{"one\n", "one\ntw"} {
		var said []string
		r := Reader{Each: func(l Line) error { said = append(said, string(l.Text)); return nil }, Damage: &Damage{}}
		if err := r.Read(brokenDisk(text), 100, true); !errors.Is(err, syscall.EIO) || len(said) != 1 || r.At != 4 {
			t.Errorf("%q: %v, %q, up to %d", text, err, said, r.At)
		}
	}
}

// The longest line is read as it was written.
func TestLongestLine(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	empty := len(lineOf(t, ""))
	longest := string(bytes.Repeat([]byte{'x'}, MaxLine+1-empty))
	say(t, j, longest, "two")
	j.Close()
	if j, said := mustOpen(t, dir, Options{}); len(said) != 2 || said[0] != longest || j.Aside != "" {
		t.Errorf("%d lines, %q", len(said), j.Aside)
	}
}

// Pieces of two seconds and of one are kept in files of their own.
func TestKeepAsideTwice(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for range 3 {
		name, err := KeepAside(root, "journal", []byte(strings.Repeat("x", len(names))))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	for i, name := range names {
		if b, err := os.ReadFile(name); err != nil || len(b) != i {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	root.Close()
	if _, err := KeepAside(root, "journal", nil); err == nil {
		t.Error("in a directory that is closed")
	}
}

// An ID in a damaged file is one that can be one.
func TestIDsOfDamage(t *testing.T) {
	var d Damage
	d.Add([]byte(`S one {"x"`))
	d.Add([]byte(`{"id":"two","id":"one"}`))
	d.Add([]byte(`{"id":"..","x":1}`))
	if ids := d.IDs(); !slices.Equal(ids, []string{"one", "two"}) || d.Size() != len(`S one {"x"`)+len(`{"id":"two","id":"one"}`)+len(`{"id":"..","x":1}`) {
		t.Errorf("%q, %d", ids, d.Size())
	}
}
