package outlog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// A life that ended while its relay was being emptied is gone on with, wherever it
// had got to.
func TestAdoptRelay(t *testing.T) {
	limit := corral.LogLimit{Head: 10, Tail: 20}
	output := []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+*/")
	const before, filled = 40, 12
	for _, written := range []int{0, 5, filled} {
		root := testRoot(t)
		l := New(root, "x", limit)
		if err := l.Append(corral.Stdout, 0, output[:before]); err != nil {
			t.Fatal(err)
		}
		if err := l.pos.store(before, filled); err != nil {
			t.Fatal(err)
		}
		for off := before; off < before+written; off++ {
			if _, err := l.out.WriteAt(output[off:off+1], int64(10+(off-10)%20)); err != nil {
				t.Fatal(err)
			}
		}
		l.Abandon()
		r, w, err := NewRelay()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(output[before+written : before+filled]); err != nil {
			t.Fatal(err)
		}
		if l, err = Open(root, "x", limit); err != nil {
			t.Fatal(err)
		}
		if err := l.AdoptRelay(r, w); err != nil {
			t.Fatal(err)
		}
		check := func(l *Log, life string) {
			t.Helper()
			b, _, from, to := collect(t, l, 0, 7)
			size := before + filled
			if want := append(bytes.Clone(output[:10]), output[size-20:size]...); l.length() != int64(size) || !bytes.Equal(b, want) || from != 10 || to != int64(size-20) {
				t.Errorf("%d of %d bytes written, %s: %d bytes, %q without %d to %d", written, filled, life, l.length(), b, from, to)
			}
		}
		// A log is read to its end; its next life has what it wrote down.
		l.End()
		check(l, "adopted")
		if l, err = Open(root, "x", limit); err != nil {
			t.Fatal(err)
		}
		l.End()
		check(l, "opened again")
	}
}

// What the relay holds of a log that has no file yet, or has room, is added.
func TestAdoptRelayEarly(t *testing.T) {
	for _, before := range []string{"", "before "} {
		root := testRoot(t)
		l := New(root, "x", corral.LogLimit{})
		if err := l.Append(corral.Stderr, 0, []byte(before)); err != nil {
			t.Fatal(err)
		}
		r, w, err := NewRelay()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString("held"); err != nil {
			t.Fatal(err)
		}
		if err := l.AdoptRelay(r, w); err != nil {
			t.Fatal(err)
		}
		l.End()
		if b, _, _, _ := collect(t, l, 0, 100); string(b) != before+"held" {
			t.Errorf("%q", b)
		}
	}
}

// A pipe goes straight into the file as long as nothing is overwritten. The relay
// is made when that begins.
func TestRelayIsMadeLate(t *testing.T) {
	for _, limit := range []corral.LogLimit{{Head: 10, Tail: 20}, {Head: 20, Tail: 10}} {
		l := New(testRoot(t), "x", limit)
		defer l.Abandon()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		made := 0
		src := Source{End: endOf(t, r), Stream: corral.Stdout, Relay: func() (r, w *os.File, err error) {
			made++
			return NewRelay()
		}}
		for size, want := range []int{0, 0, 0, 1, 1} { // in steps of ten bytes
			if _, err := w.Write(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			if n, err := l.Take(src); n != 10 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			if made != want {
				t.Errorf("%+v, after %d bytes: %d relays, want %d", limit, 10*(size+1), made, want)
			}
		}
	}
}

// The pipe of a process that writes a lot is enlarged, once.
func TestEnlarge(t *testing.T) {
	l := New(testRoot(t), "x", corral.LogLimit{})
	defer l.Abandon()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	src := Source{End: endOf(t, r), Stream: corral.Stdout}
	size := func() (n int) {
		if err := src.End.Control(func(fd uintptr) { n, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	take := func() {
		t.Helper()
		if _, err := w.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Take(src); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	usual := size()
	if err := l.Append(corral.Stdout, 0, make([]byte, enlargeFrom-1)); err != nil {
		t.Fatal(err)
	}
	take()
	if got := size(); got != usual {
		t.Errorf("enlarged before %d bytes: %d", enlargeFrom, got)
	}
	take()
	if got := size(); got != pipeSize {
		t.Errorf("after %d bytes it has room for %d, want %d", enlargeFrom, got, pipeSize)
	}
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, usual); err != nil {
		t.Fatal(err)
	}
	take()
	if got := size(); got != usual {
		t.Errorf("enlarged again: %d", got)
	}
}

// Sweep fails for what it cannot write, and the end of a source is no failure.
func TestSweepErrors(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if _, err := slave.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	src := Source{End: endOf(t, master), Stream: corral.Stdout, TTY: true}
	l := New(testRoot(t), "x", corral.LogLimit{})
	defer l.Abandon()
	mend := broken(t, l)
	if err := l.Sweep(src); err == nil || l.length() != 0 {
		t.Errorf("into a file that cannot be written: %v, %d bytes", err, l.length())
	}
	mend()
	for range 2 {
		if err := l.Sweep(src); err != nil || l.length() != 4 {
			t.Errorf("at the end: %v, %d bytes", err, l.length())
		}
	}
}

// At its end a log lets go of its files.
func TestEndCloses(t *testing.T) {
	l := New(testRoot(t), "x", corral.LogLimit{Head: 1, Tail: 1})
	if err := l.Append(corral.Stderr, 0, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AdoptRelay(r, w); err != nil {
		t.Fatal(err)
	}
	files := map[string]*os.File{"output": l.out, "index": l.idx, "position": l.pos.f, "relay": r, "relay, to write": w}
	l.End()
	for name, f := range files {
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: still open (%v)", name, err)
		}
	}
}
