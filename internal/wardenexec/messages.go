package wardenexec

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/outlog"
	"github.com/corral-exec/corral/internal/wire"
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

	// writing makes one write of input at a time. It is not sending, which
	// keeps messages in order: a write waits for what reattach has to send
	// again. And that is not mu: whoever reads the connection needs mu, and
	// must never wait for a Send.
	writing sync.Mutex
	sending sync.Mutex

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

	unacked []byte // input sent of which the warden has not said that it came: bytes from arrived on
	arrived int64
	limit   int64 // up to where input may be sent
	shut    bool  // CloseStdin was called
	deaf    bool  // nobody reads it any more
}

// inputChunk bounds the input of one message, and ackEvery how much output is
// acknowledged at once.
const (
	inputChunk = 32 << 10
	ackEvery   = wire.Window / 8
)

func newMessages(p *process, c *client, flags uint64) *messages {
	m := &messages{p: p, c: c, tty: flags&wire.FlagTTY != 0, hasInput: flags&(wire.FlagStdin|wire.FlagTTY) != 0, limit: wire.Window, pace: p.e.opts.pace(), over: make(chan struct{})}
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
	m.arrived = int64(a.m.Offset)
	m.limit = max(m.limit, m.arrived+wire.Window)
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
		m.p.e.wg.Add(1)
		go func() {
			defer m.p.e.wg.Done()
			m.rest(wait)
			_ = c.send(&wire.Message{Type: wire.OutputAck, ID: m.p.id, Offset: uint64(size)}) // broken: attached again
		}()
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
	m.p.e.wg.Add(1)
	go func() {
		defer m.p.e.wg.Done()
		select {
		case <-time.After(retryDelay):
		case <-m.p.e.life.Done():
			return
		}
		m.mu.Lock()
		c, stopped := m.c, m.stopped
		m.mu.Unlock()
		if !stopped {
			if err := m.reattach(c); err != nil {
				m.p.e.log.Error("cannot ask for output again", "id", m.p.id, "error", err)
			}
		}
	}()
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
	m.c = c
	m.stalled = false
	m.size = m.logSize()
	m.acked = m.size
	from := m.size
	m.mu.Unlock()
	a, err := c.call(m.p.e.life, &wire.Message{Type: wire.Attach, ID: m.p.id, Offset: uint64(from)}, nil)
	if err != nil {
		return err
	}
	m.sending.Lock()
	defer m.sending.Unlock()
	m.mu.Lock()
	// What the warden had accepted is accepted; the rest is sent again.
	if have := int64(a.m.Offset) - m.arrived; have > 0 {
		m.unacked = m.unacked[min(have, int64(len(m.unacked))):]
		m.arrived = int64(a.m.Offset)
	}
	off, shut := m.arrived, m.shut
	b := append([]byte(nil), m.unacked...)
	m.changed.Broadcast()
	m.mu.Unlock()
	for len(b) > 0 {
		n := min(len(b), inputChunk)
		if err := c.send(&wire.Message{Type: wire.Input, ID: m.p.id, Offset: uint64(off), Data: b[:n]}); err != nil {
			return err
		}
		off += int64(n)
		b = b[n:]
	}
	if shut && !m.tty {
		return m.p.call(m.p.e.life, &wire.Message{Type: wire.CloseStdin, ID: m.p.id, Offset: uint64(off)})
	}
	return nil
}

func (m *messages) inputAck(msg *wire.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := int64(msg.Offset) - m.arrived; n > 0 {
		n = min(n, int64(len(m.unacked)))
		m.unacked = m.unacked[n:]
		m.arrived += n
	}
	if len(m.unacked) == 0 {
		m.unacked = nil
	}
	m.limit = max(m.limit, min(int64(msg.Limit), m.arrived+int64(len(m.unacked))+wire.Window))
	if msg.Flags&wire.FlagEOF != 0 {
		m.deaf = true
	}
	m.changed.Broadcast()
}

func (m *messages) write(ctx context.Context, b []byte) (int, error) {
	stop := context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changed.Broadcast()
	})
	defer stop()
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	end := int64(-1) // where what this call sent ends
	for {
		next := m.arrived + int64(len(m.unacked))
		for (n == len(b) && m.arrived < end || n < len(b) && next >= m.limit) &&
			!m.deaf && !(m.shut && !m.tty) && !m.stopped && ctx.Err() == nil {
			m.changed.Wait()
			next = m.arrived + int64(len(m.unacked))
		}
		switch {
		case m.hasInput && end >= 0 && n == len(b) && m.arrived >= end:
			return n, nil // also if that ended the process
		case !m.hasInput, m.shut && !m.tty:
			return n, corral.Errorf(corral.ErrStdinClosed, "start the command with stdin to write to it", "the standard input of %s is closed", m.p.id)
		case m.deaf, m.stopped:
			return n, m.p.ended()
		case n == len(b) && m.arrived >= end: // nothing to write
			return n, nil
		case ctx.Err() != nil:
			return n, ctx.Err()
		}
		part := b[n:min(int64(len(b)), int64(n+inputChunk), int64(n)+m.limit-next)]
		m.unacked = append(m.unacked, part...)
		n += len(part)
		end = next + int64(len(part))
		c := m.c
		m.mu.Unlock()
		// If the connection is broken it goes out again over the next.
		m.sending.Lock()
		_ = c.send(&wire.Message{Type: wire.Input, ID: m.p.id, Offset: uint64(next), Data: part})
		m.sending.Unlock()
		m.mu.Lock()
	}
}

func (m *messages) closeStdin(ctx context.Context) error {
	if m.tty {
		_, err := m.write(ctx, []byte{endOfFile})
		return err
	}
	m.mu.Lock()
	again := m.shut || !m.hasInput
	m.shut = true
	off := m.arrived + int64(len(m.unacked))
	m.changed.Broadcast()
	m.mu.Unlock()
	if again {
		return nil
	}
	err := m.p.call(ctx, &wire.Message{Type: wire.CloseStdin, ID: m.p.id, Offset: uint64(off)})
	if errors.Is(err, corral.ErrNotFound) || errors.Is(err, corral.ErrEnded) {
		return nil
	}
	return err
}

func (m *messages) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	m.changed.Broadcast()
}
