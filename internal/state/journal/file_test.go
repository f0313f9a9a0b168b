package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/test/damagetest"
)

const testName = "lines.jsonl"

// opened opens a journal of sealed lines, and returns what they say.
func opened(t *testing.T, dir string, o Options) (*File, []string, error) {
	t.Helper()
	var said []string
	o.Name, o.What = testName, "the lines"
	o.Each = func(l Line) error {
		var s string
		err := Unseal(l.Text, &s)
		if err == nil {
			said = append(said, s)
		}
		return err
	}
	j, err := Open(dir, o)
	if err == nil {
		t.Cleanup(func() { j.Close() })
	}
	return j, said, err
}

func mustOpen(t *testing.T, dir string, o Options) (*File, []string) {
	t.Helper()
	j, said, err := opened(t, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return j, said
}

func lineOf(t *testing.T, said ...string) (b []byte) {
	t.Helper()
	for _, s := range said {
		line, err := Seal(s)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, line...)
	}
	return b
}

func say(t *testing.T, j *File, said ...string) {
	t.Helper()
	for _, s := range said {
		if err := j.Append(lineOf(t, s)); err != nil {
			t.Fatal(err)
		}
	}
}

// Wherever it is cut and whichever bit flips, nothing is made up: what is missing is
// kept aside, cut off or an error, unless it was cut at the end of a line.
func TestFileDamaged(t *testing.T) {
	want := []string{"one", "two", "three"}
	text := lineOf(t, want...)
	for _, strict := range []bool{false, true} {
		damagetest.Each(text, func(how string, damaged []byte) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, testName), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			j, said, err := opened(t, dir, Options{Strict: strict})
			if err != nil {
				if !strict || !errors.Is(err, ErrLine) || len(damaged) < len(text) {
					t.Fatalf("%s: %v", how, err)
				}
				return
			}
			defer j.Close()
			cut := len(damaged) < len(text)
			prefix := len(said) <= len(want) && slices.Equal(said, want[:len(said)])
			for _, s := range said {
				if !slices.Contains(want, s) || (cut || strict) && !prefix {
					t.Fatalf("%s: %q", how, said)
				}
			}
			n := len(damaged) // at the end of a line, with its newline or without
			whole := n == 0 || damaged[n-1] == '\n' || cut && text[n] == '\n'
			if len(said) < len(want) && !(cut && whole) && j.Aside == "" && j.Cut == 0 {
				t.Fatalf("%s: %q, and nothing says so", how, said)
			}
			if (j.Aside != "") != j.Grown() || j.Inside && cut {
				t.Fatalf("%s: aside %q, grown %v, inside %v", how, j.Aside, j.Grown(), j.Inside)
			}
			if j.Grown() {
				if err := j.Compact(func() ([]byte, error) { return lineOf(t, said...), nil }); err != nil {
					t.Fatal(err)
				}
			}
			line := lineOf(t, "more")
			if !strict {
				line = append([]byte{'\n'}, line...)
			}
			if err := errors.Join(j.Append(line), j.Close()); err != nil {
				t.Fatal(err)
			}
			j, again := mustOpen(t, dir, Options{Strict: strict})
			if !slices.Equal(again, append(said, "more")) || j.Aside != "" || j.Cut > 0 {
				t.Fatalf("%s: %q, then %q, %q, %d", how, said, again, j.Aside, j.Cut)
			}
		})
	}
}

// Whatever fails, at whatever step: what was added is there, and what was not is not.
func TestFileDiskFails(t *testing.T) {
	for _, sync := range []bool{false, true} {
		for n := range 12 {
			dir := t.TempDir()
			j, _ := mustOpen(t, dir, Options{Sync: sync})
			step := 0
			var added []string
			j.Fail(func(op string) error {
				if step++; step == n {
					return fmt.Errorf("%s: %w", op, syscall.ENOSPC)
				}
				return nil
			})
			for i := range 4 {
				s := fmt.Sprint("line ", i)
				if err := j.Append(lineOf(t, s)); err == nil {
					added = append(added, s)
				} else if !errors.Is(err, corral.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("step %d: %v", n, err)
				}
				if i == 2 {
					_ = j.Compact(func() ([]byte, error) { return lineOf(t, added...), nil })
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if j, said := mustOpen(t, dir, Options{Sync: sync}); !slices.Equal(said, added) || j.Aside != "" {
				t.Errorf("sync %v, step %d fails: %q, want %q; %s", sync, n, said, added, j.Aside)
			}
		}
	}
}

// A line of which a part was written is cut off; if that fails, then before the next one,
// or with Sync there is no next one until it is compacted.
func TestFileTorn(t *testing.T) {
	for _, sync := range []bool{false, true} {
		dir := t.TempDir()
		j, _ := mustOpen(t, dir, Options{Sync: sync})
		say(t, j, "one")
		j.Fail(func(op string) error {
			if op == "write" {
				if _, err := j.f.WriteString(`{"crc32c":`); err != nil {
					t.Error(err)
				}
			}
			return syscall.EIO
		})
		if err := j.Append(lineOf(t, "lost")); !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		j.Fail(nil)
		want := []string{"one", "two"}
		if err := j.Append(lineOf(t, "two")); (err != nil) != sync {
			t.Errorf("sync %v: %v", sync, err)
		}
		if sync {
			if err := j.Compact(func() ([]byte, error) { return lineOf(t, "one"), nil }); err != nil {
				t.Error(err)
			}
			say(t, j, "two")
		}
		j.Close()
		if j, said := mustOpen(t, dir, Options{}); !slices.Equal(said, want) || j.Aside != "" {
			t.Errorf("sync %v: %q, %q", sync, said, j.Aside)
		}
	}
}

// What is promised to be on disk was synced before.
func TestFileSyncs(t *testing.T) {
	for sync, want := range map[bool]string{false: "write; write sync rename syncdir", true: "write sync; write sync rename syncdir"} {
		j, _ := mustOpen(t, t.TempDir(), Options{Sync: sync})
		var ops []string
		j.Fail(func(op string) error { ops = append(ops, op); return nil })
		say(t, j, "one")
		got := strings.Join(ops, " ") + "; "
		ops = nil
		if err := j.Compact(func() ([]byte, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		if got += strings.Join(ops, " "); got != want {
			t.Errorf("sync %v: %s, want %s", sync, got, want)
		}
	}
}

// One program has it, also when it was compacted.
func TestFileLocked(t *testing.T) {
	for _, lock := range []string{"", "lines.lock"} {
		dir := t.TempDir()
		j, _ := mustOpen(t, dir, Options{Lock: lock})
		for range 2 {
			if _, _, err := opened(t, dir, Options{Lock: lock}); !errors.Is(err, filelock.ErrLocked) {
				t.Errorf("two have it: %v", err)
			}
			if err := j.Compact(func() ([]byte, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(j.Close(), j.Close()); err != nil {
			t.Error(err)
		}
		if err := j.Append(lineOf(t, "x")); !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("when it is closed: %v", err)
		}
		mustOpen(t, dir, Options{Lock: lock})
	}
}

// Nothing that is added while it is compacted is lost.
func TestFileCompactWhileUsed(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				s := fmt.Sprint(w, " ", i)
				mu.Lock()
				all = append(all, s)
				mu.Unlock()
				if err := j.Append(lineOf(t, s)); err != nil {
					t.Error(err)
				}
				if i%20 == 0 {
					err := j.Compact(func() ([]byte, error) {
						mu.Lock()
						defer mu.Unlock()
						return lineOf(t, all...), nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	err := j.Compact(func() ([]byte, error) {
		b := lineOf(t, all...)
		say(t, j, "after the snapshot")
		return b, nil
	})
	if err != nil {
		t.Error(err)
	}
	all = append(all, "after the snapshot")
	j.Close()
	_, said := mustOpen(t, dir, Options{})
	slices.Sort(said)
	slices.Sort(all)
	if said = slices.Compact(said); !slices.Equal(said, all) {
		t.Errorf("%d lines, want %d", len(said), len(all))
	}
}

// A line that is too long is damage, and those after it are read; it cannot be added.
func TestLongLine(t *testing.T) {
	text := slices.Concat(lineOf(t, "one"), bytes.Repeat([]byte{'x'}, MaxLine+5), lineOf(t, "in it"), lineOf(t, "two"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, testName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	j, said := mustOpen(t, dir, Options{})
	if !slices.Equal(said, []string{"one", "two"}) || j.Damage.Size() != MaxLine+5+len(lineOf(t, "in it"))-1 {
		t.Errorf("%q, %d bytes are damaged", said, j.Damage.Size())
	}
	if err := j.Append(make([]byte, MaxLine+2)); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("a long line: %v", err)
	}
}
