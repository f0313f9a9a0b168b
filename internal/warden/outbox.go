//go:build linux

package warden

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// outbox is a connection whose sender never waits for the other side. A message that
// is sent under a lock would otherwise stop everything else: deadlines, reaping and
// the other gateways. A gateway may be stopped, and what carries standard output
// away from a container may stand still while no gateway lives.
//
// A message is sent at once if it can be; else it waits here, with duplicates of
// its descriptors, and a goroutine sends what waits, in order, until nothing is left.
// How much can wait is bounded: no request is read while maxAnswers wait (see
// ready), of each process there is one end, and of its output as much as may be
// unacknowledged. A gateway that takes nothing for ten seconds loses its connection
// (see wire.Packets), and with it what waits; it connects again, and attaches.
type outbox struct {
	wire.Conn

	mu       sync.Mutex
	sent     *sync.Cond // something was sent, or the connection is at its end
	queue    []letter
	carrying bool  // a goroutine sends what waits
	err      error // of the connection
	closed   bool
	carrier  sync.WaitGroup
}

// letter is a message that waits.
type letter struct {
	m   *wire.Message
	fds []int // its own
}

// maxAnswers is with how many messages waiting no further request is read.
const maxAnswers = 64

func newOutbox(conn wire.Conn) *outbox {
	o := &outbox{Conn: conn}
	o.sent = sync.NewCond(&o.mu)
	return o
}

// Send sends a message, now or later; it must not change any more.
func (o *outbox) Send(m *wire.Message, fds ...int) error {
	if len(fds) > 0 && !o.PassesFiles() {
		return wire.ErrNoFiles
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return o.err
	case o.closed:
		return os.ErrClosed
	}
	if now, ok := o.Conn.(interface {
		TrySend(m *wire.Message, fds ...int) (bool, error)
	}); ok && !o.carrying {
		if sent, err := now.TrySend(m, fds...); sent || err != nil {
			return err
		}
	}
	l := letter{m: m}
	for _, fd := range fds {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeFDs(l.fds)
			return err
		}
		l.fds = append(l.fds, own)
	}
	o.queue = append(o.queue, l)
	if !o.carrying {
		o.carrying = true
		o.carrier.Go(o.carry)
	}
	return nil
}

// carry sends what waits.
func (o *outbox) carry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 {
		l := o.queue[0]
		o.queue[0] = letter{}
		o.queue = o.queue[1:]
		o.mu.Unlock()
		err := o.Conn.Send(l.m, l.fds...)
		switch {
		case !errors.Is(err, unix.ETOOMANYREFS):
		case l.m.Type == wire.Started, l.m.Type == wire.Dialled:
			f := notPassed("process " + l.m.ID)
			if l.m.Type == wire.Dialled {
				f = notPassed("a connection")
			}
			err = o.Conn.Send(&wire.Message{Type: wire.Error, Req: l.m.Req, ID: l.m.ID, Code: f.code, Text: f.text})
		case l.m.Type == wire.Terminal: // the process is there by now: its gateway can attach later
			err = nil
		}
		closeFDs(l.fds)
		o.mu.Lock()
		if err != nil {
			o.err = err
			o.forget()
		}
		o.sent.Broadcast()
	}
	o.carrying = false
	o.sent.Broadcast()
}

// forget lets go of what waits. mu is held.
func (o *outbox) forget() {
	for _, l := range o.queue {
		closeFDs(l.fds)
	}
	o.queue = nil
}

// drop forgets what was not sent yet: it was meant for a gateway that is gone.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget()
	o.sent.Broadcast()
}

// ready waits until a further request may be read.
func (o *outbox) ready() { o.awaitFewer(maxAnswers) }

// awaitFewer waits until fewer than n messages wait.
func (o *outbox) awaitFewer(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) >= n && o.err == nil && !o.closed {
		o.sent.Wait()
	}
}

// HungUp tells whether the other end is closed, where that can be seen.
func (o *outbox) HungUp() bool {
	c, ok := o.Conn.(interface{ HungUp() bool })
	return ok && c.HungUp()
}

// Close ends the connection.
func (o *outbox) Close() error {
	o.mu.Lock()
	o.closed = true
	o.forget()
	o.sent.Broadcast()
	o.mu.Unlock()
	return o.Conn.Close()
}

// flushLimit is how long the end of a byte stream waits for what is still to be
// said on it.
const flushLimit = time.Second

// end ends the connection and what sends on it. On a byte stream, whose other
// direction may go on, what waits is sent first; one that stands still is left.
func (o *outbox) end() {
	if o.PassesFiles() {
		o.Close()
		o.carrier.Wait()
		return
	}
	o.mu.Lock()
	late := false
	timer := time.AfterFunc(flushLimit, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		late = true
		o.sent.Broadcast()
	})
	for o.carrying && !late && !o.closed {
		o.sent.Wait()
	}
	o.mu.Unlock()
	timer.Stop()
	o.Close()
}
