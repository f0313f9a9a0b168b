package outlog

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
)

func exists(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

// A log has the files that it needs and no others.
func TestFilesOfALog(t *testing.T) {
	root := testRoot(t)
	l := New(root, "x", corral.LogLimit{Head: 10, Tail: 20})
	defer l.Abandon()
	for _, tt := range []struct {
		stream        corral.Stream
		bytes         int
		out, idx, pos bool
	}{
		{corral.Stderr, 0, false, false, false},
		{corral.Stdout, 29, true, false, false},
		{corral.Stdout, 1, true, false, false}, // just full
		{corral.Stderr, 0, true, false, false},
		{corral.Stdout, 1, true, false, true},
		{corral.Stderr, 1, true, true, true},
	} {
		if err := l.Append(tt.stream, l.length(), make([]byte, tt.bytes)); err != nil {
			t.Fatal(err)
		}
		if out, idx, pos := exists(root, "x.out"), exists(root, "x.idx"), exists(root, "x.pos"); out != tt.out || idx != tt.idx || pos != tt.pos {
			t.Errorf("after %d bytes: output %v, index %v, position %v; want %v, %v, %v", l.length(), out, idx, pos, tt.out, tt.idx, tt.pos)
		}
	}
	// What comes again changes nothing.
	for _, off := range []int64{0, 20, 31} {
		if err := l.Append(corral.Stdout, off, make([]byte, 1)); err != nil || l.length() != 32 {
			t.Errorf("again from %d: %v, %d bytes", off, err, l.length())
		}
	}
}

// Remove says which file it could not remove, and removes the others.
func TestRemoveFails(t *testing.T) {
	root := testRoot(t)
	if err := os.MkdirAll(filepath.Join(root.Name(), "x.out", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root.Name(), "x.pos"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Remove(root, "x"); err == nil || exists(root, "x.pos") {
		t.Errorf("%v, the position is there: %v", err, exists(root, "x.pos"))
	}
	if err := Remove(root, "y"); err != nil {
		t.Errorf("without files: %v", err)
	}
}

// A position of any version is read, and one of any other length is damaged.
func TestOpenPosition(t *testing.T) {
	const text = "0123456789abcdefghijklmnopqrstuvwxyzABCD"
	limit := corral.LogLimit{Head: 10, Tail: 20}
	for _, tt := range []struct {
		bytes int
		size  int64 // 0: an error
	}{{0, 0}, {1, 0}, {7, 0}, {8, 40}, {9, 0}, {15, 0}, {16, 40}, {17, 0}} {
		root := testRoot(t)
		l := New(root, "x", limit)
		if err := l.Append(corral.Stdout, 0, []byte(text)); err != nil {
			t.Fatal(err)
		}
		l.Abandon()
		name := filepath.Join(root.Name(), "x.pos")
		if err := os.Truncate(name, int64(tt.bytes)); err != nil {
			t.Fatal(err)
		}
		l, err := Open(root, "x", limit)
		if (err != nil) != (tt.size == 0) || err == nil && l.length() != tt.size {
			t.Errorf("%d bytes: %v", tt.bytes, err)
		}
		if err == nil {
			l.Abandon()
		}
	}
}

// Open refuses an output that is not as long as the position says, whichever of
// its parts is the longer one.
func TestOpenShort(t *testing.T) {
	for _, limit := range []corral.LogLimit{{Head: 10, Tail: 20}, {Head: 20, Tail: 10}} {
		root := testRoot(t)
		l := New(root, "x", limit)
		if err := l.Append(corral.Stdout, 0, make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		l.Abandon()
		for size, ok := range map[int64]bool{30: true, 29: false, 10: false, 0: false} {
			if err := os.Truncate(filepath.Join(root.Name(), "x.out"), size); err != nil {
				t.Fatal(err)
			}
			l, err := Open(root, "x", limit)
			if (err == nil) != ok {
				t.Errorf("%+v, %d bytes: %v", limit, size, err)
			}
			if err == nil {
				l.Abandon()
			}
		}
	}
}

// The word of a position holds the largest size and batch that there can be.
func TestPosition(t *testing.T) {
	root := testRoot(t)
	p, err := createPosition(root, "p", 5)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, want := range [][2]int64{{5, 0}, {0, 0}, {1, maxPending}, {1<<43 - 1, maxPending}} {
		if want[0] != 5 {
			if err := p.store(want[0], want[1]); err != nil {
				t.Fatal(err)
			}
		}
		if size, n, err := p.load(); size != want[0] || n != want[1] || err != nil {
			t.Errorf("%d and %d, %v; want %v", size, n, err, want)
		}
	}
	var other [positionSize]byte
	binary.BigEndian.PutUint64(other[wordSize:], 1)
	if _, err := p.f.WriteAt(other[:], 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.load(); err == nil {
		t.Error("another checksum is no error")
	}
}

// What is read while it may be overwritten is read again. The bytes in question
// are those of the gap.
func TestOverwritten(t *testing.T) {
	l := New(testRoot(t), "x", corral.LogLimit{Head: 10, Tail: 20})
	defer l.Abandon()
	if err := l.Append(corral.Stdout, 0, make([]byte, 40)); err != nil {
		t.Fatal(err)
	}
	for off, want := range map[int64]bool{0: false, 9: false, 10: true, 19: true, 20: false, 39: false} {
		if got := l.overwritten(off); got != want {
			t.Errorf("%d: %v, want %v", off, got, want)
		}
	}
}

// What was on its way to a log when it was let go of is an error.
func TestAppendAfterAbandon(t *testing.T) {
	l := New(testRoot(t), "x", corral.LogLimit{})
	l.Abandon()
	if err := l.Append(corral.Stdout, 0, []byte("late")); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}
