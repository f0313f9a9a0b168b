package wardenexec

import (
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// keeper is a fake warden that starts what it is asked to, and keeps the ends
// that it was given for whoever attaches.
func keeper(t *testing.T, beforeAnswer func()) *fake {
	var kept []int
	var tag []byte
	var flags uint64
	t.Cleanup(func() { closeFDs(kept) }) // after the fake has ended
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		switch m.Type {
		case wire.Start:
			tag, flags = m.Tag, m.Flags
			n := len(fds) / 2
			closeFDs(fds[:n]) // the process's: it has closed them
			kept = fds[n:]
			beforeAnswer()
			f.started(m)
		case wire.Attach:
			f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: tag, Flags: flags}, kept...)
			f.exited(m.ID)
		default:
			closeFDs(fds)
		}
	})
	return f
}

// A command that the warden has started, and in which this program then cannot
// take part, is neither "not started" nor safe to repeat: it is lost, and found
// by Attach when it can be.
func TestStartedOutOfReach(t *testing.T) {
	for _, tc := range []struct {
		name      string
		cmd       corral.Command
		untrusted bool
		fail      func(t *testing.T, e *Executor) (repair func())
	}{
		{"no descriptor for the input", corral.Command{Stdin: true}, true, func(t *testing.T, _ *Executor) func() { return noDescriptors(t) }},
		{"a full epoll", corral.Command{}, false, func(_ *testing.T, e *Executor) func() {
			set := func(closed bool) {
				e.watcher.mu.Lock()
				defer e.watcher.mu.Unlock()
				e.watcher.closed = closed
			}
			set(true)
			return func() { set(false) }
		}},
		{"no terminal", corral.Command{TTY: &corral.Size{}}, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var e atomic.Pointer[Executor]
			repair := make(chan func(), 1)
			f := keeper(t, func() {
				if tc.fail != nil {
					repair <- tc.fail(t, e.Load())
				}
			})
			x := fakeExecutor(t, f.connect)
			x.opts.Untrusted = tc.untrusted
			e.Store(x)
			tc.cmd.ID, tc.cmd.Args = "x", []string{"x"}
			p, err := x.Start(t.Context(), tc.cmd)
			if tc.fail != nil {
				(<-repair)()
			}
			if !errors.Is(err, corral.ErrLost) {
				t.Fatalf("Start: %v, %v", p, err)
			}
			if tc.cmd.TTY != nil {
				return // the fake has no terminal
			}
			again, err := x.Attach(t.Context(), "x")
			if err != nil {
				t.Fatalf("Attach afterwards: %v", err)
			}
			waitSoon(t, again)
		})
	}
}

// noDescriptors lets this program open nothing more.
func noDescriptors(t *testing.T) (repair func()) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Error(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Error(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
}

// A process that the warden lists and that cannot be taken over runs: starting
// it again must not say that nothing does. If it has ended and been forgotten
// since the greeting, it is started.
func TestListedOutOfReach(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(f *fake, m *wire.Message)
		want   error // of starting it again; nil: it is started anew
	}{
		{"too few descriptors", func(f *fake, m *wire.Message) {
			f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: []byte("{}")})
		}, corral.ErrLost},
		{"an error", func(f *fake, m *wire.Message) {
			f.send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Text: "too many references"})
		}, corral.ErrLost},
		{"forgotten", func(f *fake, m *wire.Message) {
			f.send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: wire.CodeNotFound})
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
				closeFDs(fds)
				switch m.Type {
				case wire.Attach:
					tc.answer(f, m)
				case wire.Start:
					f.started(m)
					f.exited(m.ID)
				}
			}, &wire.Message{Type: wire.Item, ID: "x", Tag: []byte("{}")})
			e := fakeExecutor(t, f.connect)
			p, err := e.Start(t.Context(), corral.Command{ID: "x", Args: []string{"x"}})
			if !errors.Is(err, tc.want) {
				t.Fatalf("Start: %v, want %v", err, tc.want)
			}
			if tc.want == nil {
				waitSoon(t, p)
				return
			}
			if err := e.records.start("x", 1, tag{}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Attach(t.Context(), "x"); !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrLost) {
				t.Errorf("Attach: %v", err)
			}
		})
	}
}
