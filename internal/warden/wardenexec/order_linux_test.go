package wardenexec

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// The end of a process may come long before the answer to its Start. Its output
// is read for as long as ever, from the answer on.
func TestExitBeforeAnswer(t *testing.T) {
	const late = corral.DrainLimit + 100*time.Millisecond
	for name, tty := range map[string]*corral.Size{"pipes": nil, "terminal": {}} {
		t.Run(name, func(t *testing.T) {
			held := make(chan []int, 1) // by a descendant
			defer func() { closeFDs(<-held) }()
			f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
				if m.Type != wire.Start {
					closeFDs(fds)
					return
				}
				f.exited(m.ID)
				time.Sleep(late)
				if tty == nil {
					say(t, fds[0], "out")
					say(t, fds[1], "err")
					held <- fds
					f.started(m)
					return
				}
				closeFDs(fds)
				master, slave, err := pty.Open()
				if err != nil {
					t.Error(err)
					return
				}
				defer master.Close()
				defer slave.Close()
				own, err := unix.Dup(int(slave.Fd()))
				if err != nil {
					t.Error(err)
					return
				}
				say(t, own, "out")
				held <- []int{own}
				f.started(m, int(master.Fd()))
			})
			p, err := fakeExecutor(t, f.connect).Start(context.Background(), corral.Command{Args: []string{"x"}, TTY: tty})
			if err != nil {
				t.Fatal(err)
			}
			waitSoon(t, p)
			got := logOf(t, p)
			if !strings.Contains(got, "out") || tty == nil && !strings.Contains(got, "err") {
				t.Errorf("the log is %q", got)
			}
		})
	}
}

// The end of a process that comes while it is being adopted counts once.
func TestExitWhileAdopted(t *testing.T) {
	attached := make(chan []int, 1) // write ends
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		if m.Type != wire.Attach {
			return
		}
		var out, err [2]int
		for _, p := range []*[2]int{&out, &err} {
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				t.Error(err)
			}
		}
		f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: []byte("{}")}, out[0], err[0])
		closeFDs([]int{out[0], err[0]})
		attached <- []int{out[1], err[1]}
	}, &wire.Message{Type: wire.Item, ID: "x", Tag: []byte("{}")})
	e := fakeExecutor(t, f.connect)
	if err := e.records.start("x", 0, tag{}); err != nil {
		t.Fatal(err)
	}
	e.watcher.mu.Lock() // adopting stops half way
	got := make(chan corral.Process, 1)
	go func() {
		p, err := e.Attach(context.Background(), "x")
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	ends := <-attached
	var p *process
	pollUntil(t, "the carrier", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		p = e.procs["x"]
		return p != nil && p.carry() != nil
	})
	f.exited("x")
	pollUntil(t, "the exit", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.exitSeen != nil
	})
	time.Sleep(10 * time.Millisecond)
	e.watcher.mu.Unlock()
	if <-got == nil {
		return
	}
	closeFDs(ends[:1])
	time.Sleep(20 * time.Millisecond)
	if !p.running() {
		t.Error("it has ended with an output open")
	} else {
		say(t, ends[1], "rest")
	}
	closeFDs(ends[1:])
	waitSoon(t, p)
	if got := logOf(t, p); got != "rest" {
		t.Errorf("the log is %q", got)
	}
}

// A warden is told to forget a process before it is asked to start another of
// that ID, and not each time that it is asked to start something.
func TestForgottenBeforeStartedAgain(t *testing.T) {
	var told []string // by the one goroutine that reads
	seen := make(chan []string, 1)
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		switch m.Type {
		case wire.Forget:
			told = append(told, m.Args...)
		case wire.Start:
			told = append(told, "start "+m.ID)
			if m.ID == "last" {
				seen <- told
			}
			f.started(m)
			f.exited(m.ID)
		}
	})
	e := fakeExecutor(t, f.connect)
	for _, id := range []string{"a", "b", "a", "last"} {
		p, err := e.Start(t.Context(), corral.Command{ID: id, Args: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		waitSoon(t, p)
		if err := p.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := <-seen
	again := slices.Index(got[1:], "start a") + 1
	if i := slices.Index(got, "a"); again == 0 || i < 0 || i > again {
		t.Errorf("the warden was told %q", got)
	}
}

// A process that was started over a connection is told of there: attaching to it over
// the same one would have its end told twice, and the second be taken for the end of
// the next process with its ID.
func TestNoAttachToWhatWasStartedHere(t *testing.T) {
	attached := make(chan string, 9)
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		switch m.Type {
		case wire.Start:
			f.started(m)
		case wire.Attach:
			attached <- m.ID
			f.started(m)
		}
	})
	e := fakeExecutor(t, f.connect)
	p, err := e.Start(t.Context(), corral.Command{ID: "x", Args: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	e.rejoin(e.current(), e.all()) // as the goroutine of a new connection does, when it is slow
	f.exited("x")
	waitSoon(t, p)
	select {
	case id := <-attached:
		t.Errorf("process %s was attached to over the connection that it was started over", id)
	default:
	}
}
