//go:build linux

package warden

import (
	"sync"

	"github.com/corral-exec/corral/internal/wire"
)

// outbox is a connection on which nobody waits for the other side. What carries
// standard output away from a container may stand still while no gateway lives;
// a message that is sent under a lock then would stop everything else: deadlines,
// reaping, ends. How much waits here is bounded by what may be unacknowledged of
// each process, which keeps that anyway.
type outbox struct {
	wire.Conn

	mu      sync.Mutex
	changed *sync.Cond
	queue   []*wire.Message
	err     error // of the connection
	closed  bool
}

func newOutbox(conn wire.Conn) *outbox {
	o := &outbox{Conn: conn}
	o.changed = sync.NewCond(&o.mu)
	go o.run()
	return o
}

// Send leaves a message to be sent, which must not change any more.
func (o *outbox) Send(m *wire.Message, fds ...int) error {
	if len(fds) > 0 {
		return o.Conn.Send(m, fds...) // which says that it cannot
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.queue = append(o.queue, m)
		o.changed.Signal()
	}
	return o.err
}

// drop forgets what was not sent yet: it was meant for somebody who is gone.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = nil
}

// Close ends the connection.
func (o *outbox) Close() error {
	o.mu.Lock()
	o.closed = true
	o.changed.Signal()
	o.mu.Unlock()
	return o.Conn.Close()
}

func (o *outbox) run() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.queue) == 0 && !o.closed {
			o.changed.Wait()
		}
		if len(o.queue) == 0 {
			return
		}
		m := o.queue[0]
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.mu.Unlock()
		err := o.Conn.Send(m)
		o.mu.Lock()
		if err != nil {
			o.err, o.queue = err, nil
			return
		}
	}
}
