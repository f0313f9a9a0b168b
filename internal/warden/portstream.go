//go:build linux

package warden

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// portStream is a connection to a port whose bytes travel in messages. Each side says up
// to where the other may send, so that a program, or a client, that reads nothing holds
// up its own connection alone. With the connection to the gateway it ends.
type portStream struct {
	c      *client
	number uint64 // of the request
	socket *os.File
	rc     syscall.RawConn

	mu      sync.Mutex
	changed *sync.Cond
	sent    int64     // bytes of the program's that were sent
	limit   int64     // up to where the gateway takes them
	pending wire.Held // came, and is not written yet
	eof     bool      // nothing follows pending
	over    bool
	left    int // directions that have not ended
}

// streamPort answers m, and begins to move the bytes of a connected socket. cuts are those
// of the client when it asked: the gateway that asked may be gone.
func (c *client) streamPort(m *wire.Message, socket *os.File, cuts int) error {
	p := &portStream{c: c, number: m.Req, socket: socket, left: 2}
	p.changed = sync.NewCond(&p.mu)
	var err error
	if p.rc, err = socket.SyscallConn(); err != nil {
		c.endDial(socket)
		return c.answer(m, dialFailed(m.Port, err))
	}
	c.s.mu.Lock()
	delete(c.s.dials, socket)
	var f *fail
	switch _, served := c.s.clients[c]; {
	case c.s.closing || !served || c.cuts != cuts:
		f = failf(wire.CodeUnavailable, "the connection to the warden has ended")
	case len(c.s.ports) >= wire.MaxPorts:
		f = failf(wire.CodeUnavailable, "%d connections to ports are open already, and no more can be where descriptors are not passed", len(c.s.ports))
	default:
		if err = socket.SetWriteDeadline(time.Time{}); err != nil {
			f = failf(wire.CodeUnavailable, "cannot use the connection: %v", err)
			break
		}
		c.s.ports[p] = struct{}{}
		c.s.wg.Add(2)
	}
	c.s.mu.Unlock()
	if f != nil {
		socket.Close()
		return c.answer(m, f)
	}
	err = c.conn.Send(&wire.Message{Type: wire.Dialled, Req: m.Req, Limit: wire.PortWindow})
	go p.read()
	go p.write()
	return err
}

// portMessage takes what a gateway says of a connection. One that has ended is not known
// any more.
func (c *client) portMessage(m *wire.Message) {
	p := c.portStream(m.Stream)
	if p == nil {
		return
	}
	switch m.Type {
	case wire.PortData:
		if !p.add(m) {
			p.fail("the gateway sent what it may not")
		}
	case wire.PortAck:
		p.mu.Lock()
		p.limit = max(p.limit, min(int64(m.Limit), p.sent+wire.PortWindow))
		p.changed.Broadcast()
		p.mu.Unlock()
	case wire.PortClose:
		c.s.mu.Lock()
		delete(c.s.ports, p)
		c.s.mu.Unlock()
		p.stop()
	}
}

func (c *client) portStream(number uint64) *portStream {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for p := range c.s.ports { // at most wire.MaxPorts
		if p.c == c && p.number == number {
			return p
		}
	}
	return nil
}

// add takes data for the program; false if it is more than was allowed.
func (p *portStream) add(m *wire.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return true
	}
	if p.eof || int64(m.Offset) != p.pending.End() || p.pending.Len()+len(m.Data) > wire.PortWindow {
		return false
	}
	p.pending.Add(m.Data)
	p.eof = m.Flags&wire.FlagEOF != 0
	p.changed.Broadcast()
	return true
}

// read sends what the program sends.
func (p *portStream) read() {
	defer p.c.s.wg.Done()
	for {
		n, at := p.allowed()
		if n == 0 {
			return
		}
		data := make([]byte, n) // it is the message's
		n, err := p.receive(data)
		if err != nil {
			p.fail(err.Error())
			return
		}
		m := &wire.Message{Type: wire.PortData, Stream: p.number, Offset: uint64(at), Data: data[:n:n]}
		if n == 0 {
			m.Flags = wire.FlagEOF
		}
		p.mu.Lock()
		p.sent += int64(n)
		p.mu.Unlock()
		if p.c.conn.Send(m) != nil {
			p.fail("")
			return
		}
		if n == 0 {
			p.ended()
			return
		}
	}
}

// receive is read(2), and send is write(2), of the socket. They wait in the runtime's
// poller; the call itself never waits, and so the runtime need not know of it.
func (p *portStream) receive(data []byte) (int, error) {
	return transferred(p.rc.Read, func(fd uintptr) (uintptr, unix.Errno) {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), unix.MSG_DONTWAIT, 0, 0)
		return n, errno
	})
}

func (p *portStream) send(data []byte) (int, error) {
	return transferred(p.rc.Write, func(fd uintptr) (uintptr, unix.Errno) {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		return n, errno
	})
}

// transferred repeats a call until it need not wait.
func transferred(wait func(func(fd uintptr) bool) error, call func(fd uintptr) (uintptr, unix.Errno)) (int, error) {
	var n uintptr
	var errno unix.Errno
	err := wait(func(fd uintptr) bool {
		for {
			if n, errno = call(fd); errno != unix.EINTR {
				return errno != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	}
	return int(n), nil
}

// allowed waits until something may be sent, and returns how much, and where it begins; 0:
// the stream is over.
func (p *portStream) allowed() (n int, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && p.limit <= p.sent {
		p.changed.Wait()
	}
	if p.over {
		return 0, 0
	}
	return int(min(p.limit-p.sent, chunk)), p.sent
}

// write has the program get what came, and its end.
func (p *portStream) write() {
	defer p.c.s.wg.Done()
	told := int64(wire.PortWindow)
	for {
		data := p.next()
		if data == nil {
			return
		}
		n, err := p.send(data)
		p.mu.Lock()
		taken := p.pending.Start() + int64(n)
		p.pending.Drop(taken)
		limit, end := taken+wire.PortWindow, p.eof && p.pending.Len() == 0
		p.mu.Unlock()
		switch {
		case err != nil:
			p.fail(err.Error())
			return
		case end:
			p.shut()
			return
		case limit-told >= wire.PortWindow/4:
			told = limit
			if p.c.conn.Send(&wire.Message{Type: wire.PortAck, Stream: p.number, Limit: uint64(limit)}) != nil {
				p.fail("")
				return
			}
		}
	}
}

// next waits for what is to be written; nil: the stream is over, or an end without data
// came, which it has passed on.
func (p *portStream) next() []byte {
	p.mu.Lock()
	for !p.over && p.pending.Len() == 0 && !p.eof {
		p.changed.Wait()
	}
	over, data := p.over, p.pending.From(p.pending.Start())
	p.mu.Unlock()
	switch {
	case over:
		return nil
	case len(data) == 0:
		p.shut()
		return nil
	}
	return data
}

// shut tells the program that nothing more comes.
func (p *portStream) shut() {
	_ = p.rc.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // the other side may be gone
	p.ended()
}

// ended notes that a direction has ended.
func (p *portStream) ended() {
	p.mu.Lock()
	p.left--
	last := p.left == 0
	p.mu.Unlock()
	if last {
		p.forget()
	}
}

// fail gives up the connection, and tells the gateway why, unless it knows.
func (p *portStream) fail(why string) {
	if p.forget() && why != "" {
		_ = p.c.conn.Send(&wire.Message{Type: wire.PortClose, Stream: p.number, Text: why}) // a broken connection says it too
	}
}

// forget ends the stream; false if that was done already.
func (p *portStream) forget() bool {
	p.c.s.mu.Lock()
	delete(p.c.s.ports, p)
	p.c.s.mu.Unlock()
	return p.stop()
}

// stop ends what the stream does; false if that was done already.
func (p *portStream) stop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.over = true
	p.changed.Broadcast()
	p.socket.Close()
	return true
}
