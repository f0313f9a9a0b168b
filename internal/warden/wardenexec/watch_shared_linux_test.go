package wardenexec

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// All executors of a program have one watcher, and so one thread; it ends with the last.
func TestOneWatcher(t *testing.T) {
	begin := func() *Executor {
		e, err := New(Options{
			Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
			Connect: func(context.Context, bool) (wire.Conn, error) { return nil, context.Canceled },
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first, second := begin(), begin()
	if first.watcher != second.watcher {
		t.Error("each has its own")
	}
	for i, e := range []*Executor{first, second} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if closed := first.watcher.closed; closed != (i == 1) {
			t.Errorf("closed after %d: %t", i+1, closed)
		}
		_ = e.Close() // once more changes nothing
	}
	third := begin()
	if third.watcher == first.watcher {
		t.Error("a watcher that has ended is used")
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}

// A terminal's output, which is its input as well, is not watched any more when it is
// closed, though the warden keeps it open.
func TestTerminalIsNotWatched(t *testing.T) {
	w, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	wardens, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(wardens)
	pi := &pipes{p: &process{e: &Executor{watcher: w}}}
	if err := pi.setTerminal(fd); err != nil {
		t.Fatal(err)
	}
	if err := w.add(pi.outputs[0]); err != nil {
		t.Fatal(err)
	}
	watched := func() int {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w.epoll))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "tfd:")
	}
	if n := watched(); n != 2 { // with what ends the watcher
		t.Fatalf("%d descriptors are watched", n)
	}
	pi.close()
	if n := watched(); n != 1 {
		t.Errorf("%d descriptors are watched still", n)
	}
}
