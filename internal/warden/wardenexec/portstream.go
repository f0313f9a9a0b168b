package wardenexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// portStream is a connection to a port whose bytes travel in messages (wire.PortData).
// It ends with the connection to the warden, which may be hostile: what it sends beyond
// the window ends the stream.
type portStream struct {
	c      *client
	number uint64 // of the request
	port   int
	life   context.Context // ends with Close
	end    context.CancelFunc

	writing sync.Mutex // held by Write and CloseWrite, so that what they send stays in order

	mu      sync.Mutex
	changed *sync.Cond
	held    wire.Held // came, and is not read yet
	granted int64     // up to where the warden may send
	eof     bool      // nothing follows what came
	sent    int64
	limit   int64 // up to where may be sent
	shut    bool  // CloseWrite was called
	closed  bool
	err     error // why it is broken
	reads   portDeadline
	writes  portDeadline
}

// portChunk bounds the data of one message, in bytes.
const portChunk = 32 << 10

// newPortStream takes the answer to a Dial with that number.
func (c *client) newPortStream(a answer, number uint64, port int) (net.Conn, error) {
	p := &portStream{c: c, number: number, port: port, granted: wire.PortWindow, limit: int64(min(a.m.Limit, wire.PortWindow))}
	p.changed = sync.NewCond(&p.mu)
	p.life, p.end = context.WithCancel(context.Background())
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		p.end()
		return nil, err
	}
	c.ports[number] = p
	c.mu.Unlock()
	if err := p.send(&wire.Message{Type: wire.PortAck, Limit: uint64(p.granted)}); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// portMessage takes a message about the bytes of a connection; false if it is about
// something else.
func (c *client) portMessage(m *wire.Message) bool {
	if m.Type != wire.PortData && m.Type != wire.PortAck && m.Type != wire.PortClose {
		return false
	}
	c.mu.Lock()
	p := c.ports[m.Stream]
	c.mu.Unlock()
	if p != nil { // else it was closed here
		p.take(m)
	}
	return true
}

// take takes a message. It waits for nothing.
func (p *portStream) take(m *wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil || p.closed:
		return
	case m.Type == wire.PortAck:
		p.limit = max(p.limit, min(int64(m.Limit), p.sent+wire.PortWindow))
	case m.Type == wire.PortClose:
		p.err = fmt.Errorf("the connection was cut: %s", printable(m.Text))
	case p.eof || m.Offset != uint64(p.held.End()) || p.held.End()+int64(len(m.Data)) > p.granted:
		p.err = errors.New("the warden sent what it may not")
	default:
		p.held.Add(m.Data)
		p.eof = m.Flags&wire.FlagEOF != 0
	}
	p.changed.Broadcast()
}

// broken ends the stream with the connection to the warden.
func (p *portStream) broken(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && !(p.eof && p.shut) {
		p.err = err
	}
	p.changed.Broadcast()
}

func (p *portStream) send(m *wire.Message) error {
	m.Stream = p.number
	return p.c.send(p.life, m)
}

// Read implements net.Conn.
func (p *portStream) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held.Len() == 0 || p.closed {
		switch {
		case p.closed:
			return 0, p.failed("read", net.ErrClosed)
		case p.eof:
			return 0, io.EOF
		case p.err != nil:
			return 0, p.failed("read", p.err)
		case p.reads.over():
			return 0, p.failed("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		}
		p.changed.Wait()
	}
	read := p.held.Start()
	n := copy(b, p.held.From(read))
	read += int64(n)
	p.held.Drop(read)
	if limit := read + wire.PortWindow; !p.eof && limit-p.granted >= wire.PortWindow/4 {
		p.granted = limit
		p.mu.Unlock()
		_ = p.send(&wire.Message{Type: wire.PortAck, Limit: uint64(limit)}) // broken: so is the stream
		p.mu.Lock()
	}
	return n, nil
}

// Write implements net.Conn.
func (p *portStream) Write(b []byte) (n int, err error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	for n < len(b) {
		size, at, err := p.allowed(len(b) - n)
		if err != nil {
			return n, err
		}
		if err := p.send(&wire.Message{Type: wire.PortData, Offset: uint64(at), Data: b[n : n+size]}); err != nil {
			return n, p.failed("write", err)
		}
		n += size
	}
	return n, nil
}

// allowed waits until some of n bytes may be sent, and returns how many, and where they
// begin.
func (p *portStream) allowed(n int) (size int, at int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed, p.shut:
			return 0, 0, p.failed("write", net.ErrClosed)
		case p.err != nil:
			return 0, 0, p.failed("write", p.err)
		case p.writes.over():
			return 0, 0, p.failed("write", os.ErrDeadlineExceeded)
		case p.limit > p.sent:
			size, at = int(min(int64(n), p.limit-p.sent, portChunk)), p.sent
			p.sent += int64(size)
			return size, at, nil
		}
		p.changed.Wait()
	}
}

// CloseWrite ends what is written: the program inside reads the end of it.
func (p *portStream) CloseWrite() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	at, done, err := p.sent, p.shut || p.closed, p.err
	p.shut = true
	p.mu.Unlock()
	switch {
	case done:
		return nil
	case err != nil:
		return p.failed("close", err)
	}
	return p.send(&wire.Message{Type: wire.PortData, Offset: uint64(at), Flags: wire.FlagEOF})
}

// closeLimit bounds how long Close tries to tell the warden.
const closeLimit = time.Second

// Close implements net.Conn.
func (p *portStream) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return net.ErrClosed
	}
	over := p.eof && p.shut
	p.closed, p.held = true, wire.Held{}
	p.reads.stop()
	p.writes.stop()
	p.changed.Broadcast()
	p.mu.Unlock()
	p.end()
	p.c.mu.Lock()
	delete(p.c.ports, p.number)
	p.c.mu.Unlock()
	if over { // the warden forgets it by itself
		return nil
	}
	p.c.closePort(p.number)
	return nil
}

// closePort has the warden give up a connection.
func (c *client) closePort(number uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = c.send(ctx, &wire.Message{Type: wire.PortClose, Stream: number}) // broken: it is given up in any case
}

func (p *portStream) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: p.LocalAddr(), Addr: p.RemoteAddr(), Err: err}
}

// LocalAddr is not known.
func (p *portStream) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// RemoteAddr is the port inside.
func (p *portStream) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.port}
}

// SetDeadline implements net.Conn.
func (p *portStream) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (p *portStream) SetReadDeadline(t time.Time) error { return p.setDeadline(&p.reads, t) }

// SetWriteDeadline implements net.Conn.
func (p *portStream) SetWriteDeadline(t time.Time) error { return p.setDeadline(&p.writes, t) }

func (p *portStream) setDeadline(d *portDeadline, t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	d.stop()
	d.at = t
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.changed.Broadcast()
		})
	}
	return nil
}

// portDeadline is a time after which a call does not wait.
type portDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *portDeadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *portDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
