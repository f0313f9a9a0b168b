package wardenexec

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// noFiles has this process open no file from now on, until what it returns is called.
func noFiles(t *testing.T) (again func()) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Error(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
		t.Error(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
}

// Where this program has too many files open to take what the warden sends, the start
// and the attachment say so, and the connection, and what runs over it, go on.
func TestDescriptorsNotPassed(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer tty.Close()
	var full atomic.Bool
	limited, output, tag := make(chan func(), 1), make(chan []int, 1), []byte(nil)
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		switch {
		case m.Type == wire.Start && m.Flags&wire.FlagTTY == 0:
			output <- fds
			f.started(m)
		case m.Type == wire.Start:
			closeFDs(fds)
			tag = m.Tag
			limited <- noFiles(t)
			f.send(&wire.Message{Type: wire.Terminal, Req: m.Req, ID: m.ID}, int(terminal.Fd()))
			f.started(m)
		case m.Type == wire.Attach && m.ID == "on-terminal":
			if full.Load() {
				limited <- noFiles(t)
			}
			f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: tag, Flags: wire.FlagTTY}, int(terminal.Fd()))
		default:
			closeFDs(fds)
			f.send(&wire.Message{Type: wire.OK, Req: m.Req})
		}
	})
	var connected atomic.Int32
	e := fakeExecutor(t, func(bool) (wire.Conn, error) {
		if connected.Add(1) > 1 {
			return nil, errors.New("it connects again")
		}
		return f.gw, nil
	})
	other, err := e.Start(t.Context(), corral.Command{ID: "other", Args: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	start := func() error {
		_, err := e.Start(t.Context(), corral.Command{ID: "on-terminal", Args: []string{"x"}, TTY: &corral.Size{}})
		return err
	}
	attach := func() error { _, err := e.Attach(t.Context(), "on-terminal"); return err }
	for _, tc := range []struct {
		name string
		call func() error
		kind error
	}{{"start", start, corral.ErrLost}, {"attach", attach, corral.ErrUnavailable}} {
		full.Store(true)
		err := tc.call()
		select {
		case again := <-limited:
			again()
		default:
			t.Errorf("%s: the warden was not asked", tc.name)
		}
		if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), "too many open files") || corral.Hint(err) == "" {
			t.Errorf("%s: %v (hint: %s), want %v", tc.name, err, corral.Hint(err), tc.kind)
		}
	}
	full.Store(false)
	if err := attach(); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	if err := other.Signal(t.Context(), corral.SIGTERM); err != nil {
		t.Errorf("another process: %v", err)
	}
	fds := <-output
	say(t, fds[0], "goes on")
	closeFDs(fds)
	f.exited("other")
	waitSoon(t, other)
	if got := logOf(t, other); got != "goes on" || connected.Load() != 1 {
		t.Errorf("the log of another process is %q, after %d connections", got, connected.Load())
	}
	f.exited("on-terminal")
}
