package outlog

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

func endOf(t *testing.T, f *os.File) Descriptor {
	t.Helper()
	rc, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

// broken makes writing a log's file fail until it is mended.
func broken(t *testing.T, l *Log) (mend func()) {
	t.Helper()
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.beginRun(corral.Stdout); err != nil {
		t.Fatal(err)
	}
	out := l.out
	ro, err := l.root.Open(l.id + suffixOut)
	if err != nil {
		t.Fatal(err)
	}
	l.out = ro
	return func() {
		l.out = out
		ro.Close()
	}
}

// What has left a terminal or a pipe, but could not be written, is written as
// soon as it can be, whether or not there is more to take.
func TestHeld(t *testing.T) {
	const text = "said before the disk was full"
	take := func(l *Log, src Source) error {
		_, err := l.Take(src)
		return err
	}
	for name, again := range map[string]struct {
		take  func(*Log, Source) error
		close bool
		want  error
	}{
		"nothing more": {take, false, ErrNothing},
		"at the end":   {take, true, io.EOF},
		"sweep":        {(*Log).Sweep, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(testRoot(t), "x", corral.LogLimit{})
			defer l.Abandon()
			master, slave, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			defer slave.Close()
			src := Source{End: endOf(t, master), Stream: corral.Stdout, TTY: true}
			if _, err := slave.WriteString(text); err != nil {
				t.Fatal(err)
			}
			mend := broken(t, l)
			for err = ErrNothing; errors.Is(err, ErrNothing); {
				_, err = l.Take(src)
			}
			if l.relay.held != int64(len(text)) {
				t.Fatalf("the relay holds %d bytes: %v", l.relay.held, err)
			}
			mend()
			if again.close {
				slave.Close()
			}
			for err = nil; err == nil; {
				if err = again.take(l, src); again.want == nil {
					break
				}
			}
			if !errors.Is(err, again.want) {
				t.Errorf("%v, want %v", err, again.want)
			}
			if l.length() != int64(len(text)) {
				t.Errorf("%d bytes are in the log, want %d", l.length(), len(text))
			}
		})
	}
}

// Sweeping one stream takes all of it, whatever is added of another meanwhile.
func TestSweepTwo(t *testing.T) {
	const n = 60_000
	// The second that moves has room for a part, and then needs the ring.
	l := New(testRoot(t), "x", corral.LogLimit{Head: n, Tail: n / 2})
	defer l.Abandon()
	var wg sync.WaitGroup
	l.writing.Lock() // both begin while the log is empty
	for _, stream := range []corral.Stream{corral.Stdout, corral.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		if _, err := w.WriteString(strings.Repeat("x", n)); err != nil {
			t.Fatal(err)
		}
		src := Source{End: endOf(t, r), Stream: stream}
		wg.Go(func() {
			if err := l.Sweep(src); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	l.writing.Unlock()
	wg.Wait()
	if got := l.length(); got != 2*n {
		t.Errorf("%d bytes were swept, want %d", got, 2*n)
	}
}

// Sweeping a terminal takes all that was written to it, although the kernel
// counts only what has passed its line discipline.
func TestSweepTerminal(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close() // a descendant holds it
	written := fill(t, slave)
	if counted, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCINQ); err != nil || counted >= written {
		t.Errorf("the kernel counts %d of %d bytes, %v: the test shows nothing", counted, written, err)
	}
	if err := unix.SetNonblock(int(master.Fd()), true); err != nil {
		t.Fatal(err)
	}
	l := New(testRoot(t), "x", corral.LogLimit{})
	defer l.Abandon()
	if err := l.Sweep(Source{End: endOf(t, master), Stream: corral.Stdout, TTY: true}); err != nil {
		t.Error(err)
	}
	if got := l.length(); got != int64(written) {
		t.Errorf("%d bytes were swept, want %d", got, written)
	}
}

// fill writes to a terminal as much as it takes.
func fill(t *testing.T, slave *os.File) (written int) {
	t.Helper()
	fd := int(slave.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for quiet := 0; quiet < 3; { // the kernel moves it on by and by
		n, err := unix.Write(fd, []byte(strings.Repeat("x", 1000)))
		switch {
		case err == nil:
			written += n
			quiet = 0
		case err == unix.EAGAIN:
			quiet++
			time.Sleep(20 * time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
	return written
}
