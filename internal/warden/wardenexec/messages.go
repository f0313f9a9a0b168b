package wardenexec

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// messages is the carrier where descriptors cannot be passed: output and input
// travel with absolute offsets. The warden holds output until it is
// acknowledged, and this end holds input until it is.
type messages struct {
	p        *process
	hasInput bool
	tty      bool
	pace     *outlog.Pace
	over     chan struct{} // closed when the process has ended

	writing turn.Lock // one write of input at a time

	// Never held during a Send: the reader of the connection needs it.
	mu      sync.Mutex
	changed *sync.Cond
	c       *client
	stopped bool
	begun   bool // the answer to Start or Attach has been taken
	hasExit bool
	atEnd   bool  // the last byte is in the log
	size    int64 // bytes in the log
	acked   int64 // of those, acknowledged
	stalled bool  // the log could not be written; the warden is asked again

	in      wire.Held // input that the warden has not acknowledged
	sent    int64     // up to where it was sent over this connection
	part    []byte    // what feed sends of it, which may be dropped meanwhile
	limit   int64     // up to where input may be sent
	shut    bool      // CloseStdin was called
	told    bool      // the warden knows that
	shutErr error     // what it has against it
	deaf    bool      // it is not read any more
	away    bool      // there is no connection over which input can be sent
	feeding bool      // feed runs
}

// ackEvery is how much output is acknowledged at once, in bytes.
const ackEvery = wire.Window / 2

func newMessages(p *process, c *client, flags uint64) *messages {
	m := &messages{p: p, c: c, tty: flags&wire.FlagTTY != 0, hasInput: flags&(wire.FlagStdin|wire.FlagTTY) != 0, limit: wire.Window, pace: p.e.opts.pace(), over: make(chan struct{}),
		writing: turn.New()}
	m.changed = sync.NewCond(&m.mu)
	m.size = m.logSize()
	m.acked = m.size
	return m
}

// adopted goes on where an earlier life was.
func (m *messages) adopted(a answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tty = a.m.Flags&wire.FlagTTY != 0
	m.hasInput = a.m.Flags&(wire.FlagStdin|wire.FlagTTY) != 0
	m.sent = int64(a.m.Offset)
	m.in = wire.HeldFrom(m.sent)
	m.limit = max(m.limit, m.sent+wire.Window)
}

// begin is called when the answer to Start or Attach has been taken.
func (m *messages) begin() {
	m.mu.Lock()
	m.begun = true
	m.mu.Unlock()
	m.finishIfDone()
}

func (m *messages) logSize() int64 {
	stat, err := m.p.log.Stat(context.Background())
	if err != nil { // outlog's never fails
		m.p.e.log.Error("cannot see how long a log is", "id", m.p.id, "error", err)
	}
	return stat.Size
}

func (m *messages) exited() {
	m.mu.Lock()
	if !m.hasExit {
		close(m.over)
	}
	m.hasExit = true
	m.mu.Unlock()
	m.finishIfDone()
}

func (m *messages) event(msg *wire.Message) {
	switch msg.Type {
	case wire.Output:
		m.output(msg)
		m.finishIfDone()
	case wire.InputAck:
		m.inputAck(msg)
	}
}

func (m *messages) output(msg *wire.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.stalled || m.atEnd {
		return
	}
	off := int64(msg.Offset)
	if msg.Flags&wire.FlagEOF != 0 {
		m.atEnd = off == m.size
		return
	}
	stream := corral.Stdout
	if msg.Stream == uint64(corral.Stderr) {
		stream = corral.Stderr
	}
	if off < 0 || off > m.size {
		m.p.e.log.Error("the warden left out output", "id", m.p.id, "have", m.size, "got", off)
		m.stall()
		return
	}
	if err := m.p.log.Append(stream, off, msg.Data); err != nil {
		m.p.e.log.Error("output waits: its log cannot be written", "id", m.p.id, "error", err)
		m.stall()
		return
	}
	m.size = max(m.size, off+int64(len(msg.Data)))
	if m.size-m.acked >= ackEvery {
		wait := m.pace.Took(m.size - m.acked)
		m.acked = m.size
		c, size := m.c, m.size
		// Not from the goroutine that reads: if both sides only wrote,
		// neither would go on.
		m.p.e.wg.Go(func() {
			m.rest(wait)
			_ = c.send(m.p.e.life, &wire.Message{Type: wire.OutputAck, ID: m.p.id, Offset: uint64(size)}) // broken: attached again
		})
	}
}

// rest leaves output unacknowledged for some time, in which the process waits if
// it writes more. What is there at its end is taken at once.
func (m *messages) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-m.over:
	case <-m.p.e.life.Done():
	}
}

// stall leaves output with the warden for a while, and then asks for it again.
func (m *messages) stall() {
	m.stalled = true
	m.p.e.wg.Go(func() {
		select {
		case <-time.After(retryDelay):
		case <-m.p.e.life.Done():
			return
		}
		m.mu.Lock()
		c, stopped := m.c, m.stopped
		m.mu.Unlock()
		if !stopped {
			m.p.e.rejoin(c, []*process{m.p})
		}
	})
}

// finishIfDone ends the process once: after its exit and its last byte.
func (m *messages) finishIfDone() {
	m.mu.Lock()
	done := m.begun && m.hasExit && m.atEnd && !m.stopped
	if done {
		m.stopped = true
		m.changed.Broadcast()
	}
	m.mu.Unlock()
	if done {
		m.p.finish()
	}
}

// reattach goes on over a connection, both ways, from what each side has.
func (m *messages) reattach(c *client) error {
	m.mu.Lock()
	m.c, m.away = c, true
	m.stalled = false
	m.size = m.logSize()
	m.acked = m.size
	from := m.size
	m.mu.Unlock()
	a, err := c.call(m.p.e.life, &wire.Message{Type: wire.Attach, ID: m.p.id, Offset: uint64(from)}, nil)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.c != c { // another connection has come meanwhile
		return nil
	}
	// What the warden had accepted is accepted; the rest is sent again.
	m.in.Drop(int64(a.m.Offset))
	m.sent, m.told, m.away = m.in.Start(), false, false
	m.changed.Broadcast()
	m.feedLocked()
	return nil
}

// feedLocked has what is to be sent of the input sent. mu is held.
func (m *messages) feedLocked() {
	if !m.feeding {
		m.feeding = true
		m.p.e.wg.Add(1)
		go m.feed()
	}
}

// feed sends input, and then that it has ended, in this order. One goroutine at a time
// does that, so that a Write can give up. What breaks the connection is sent over the
// next.
func (m *messages) feed() {
	defer m.p.e.wg.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.stopped && !m.away {
		c, off, end := m.c, m.sent, m.in.End()
		if off == end && (!m.shut || m.tty || m.told) {
			break
		}
		var err error
		if off < end {
			m.part = append(m.part[:0], m.in.From(off)...)
			msg := &wire.Message{Type: wire.Input, ID: m.p.id, Offset: uint64(off), Data: m.part}
			if m.sent += int64(len(m.part)); m.sent < end {
				msg.Flags = wire.FlagMore
			}
			m.mu.Unlock()
			err = c.send(m.p.e.life, msg)
			m.mu.Lock()
		} else {
			m.mu.Unlock()
			var a answer
			a, err = c.call(m.p.e.life, &wire.Message{Type: wire.CloseStdin, ID: m.p.id, Offset: uint64(off)}, nil)
			m.mu.Lock()
			if a.m != nil {
				if m.told = true; !errors.Is(err, corral.ErrNotFound) && !errors.Is(err, corral.ErrEnded) {
					m.shutErr = err
				}
				err = nil
			}
		}
		if err != nil && m.c == c {
			m.away = true // until reattach
		}
		m.changed.Broadcast()
	}
	m.feeding = false
	if m.shut || m.stopped {
		m.part = nil
	}
}

func (m *messages) inputAck(msg *wire.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in.Drop(int64(msg.Offset))
	m.sent = max(m.sent, m.in.Start())
	m.limit = max(m.limit, min(int64(msg.Limit), m.in.End()+wire.Window))
	if msg.Flags&wire.FlagEOF != 0 {
		m.deaf = true
	}
	m.changed.Broadcast()
}

func (m *messages) write(ctx context.Context, b []byte) (int, error) {
	if err := m.writing.Take(ctx); err != nil {
		return 0, err
	}
	defer m.writing.Release()
	defer m.wakenBy(ctx)()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	end := int64(-1) // where what this call sent ends
	for {
		for (n == len(b) && m.in.Start() < end || n < len(b) && m.in.End() >= m.limit) &&
			!m.deaf && !(m.shut && !m.tty) && !m.stopped && ctx.Err() == nil {
			m.changed.Wait()
		}
		switch {
		case m.hasInput && end >= 0 && n == len(b) && m.in.Start() >= end:
			return n, nil // also if that ended the process
		case !m.hasInput, m.shut && !m.tty:
			return n, corral.Errorf(corral.ErrStdinClosed, "start the command with stdin to write to it", "the standard input of %s is closed", m.p.id)
		case m.deaf, m.stopped:
			return n, m.p.ended()
		case n == len(b) && m.in.Start() >= end: // nothing to write
			return n, nil
		case ctx.Err() != nil:
			return n, ctx.Err()
		}
		part := b[n:min(int64(len(b)), int64(n)+m.limit-m.in.End())]
		m.in.Add(part)
		n += len(part)
		end = m.in.End()
		m.feedLocked()
	}
}

// wakenBy has those who wait for changed look again when ctx ends. What it returns
// is called when they do not wait any more.
func (m *messages) wakenBy(ctx context.Context) (over func() bool) {
	return context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changed.Broadcast()
	})
}

func (m *messages) closeStdin(ctx context.Context) error {
	if m.tty {
		_, err := m.write(ctx, []byte{endOfFile})
		return err
	}
	defer m.wakenBy(ctx)()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.hasInput {
		return nil
	}
	m.shut = true
	m.changed.Broadcast()
	m.feedLocked()
	for !m.told && !m.deaf && !m.stopped {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.changed.Wait()
	}
	return m.shutErr
}

func (m *messages) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	m.changed.Broadcast()
}
