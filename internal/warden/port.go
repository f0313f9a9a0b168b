//go:build linux

package warden

import (
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// Ports: a gateway reaches what listens in a sandbox, which may have no network, by
// asking the warden for a connection to a port of the loopback interface. The warden
// makes it in the sandbox's network namespace, hands the socket over and closes its own
// descriptor. Then it sees none of the bytes. Where no descriptor can be passed, they
// travel in messages (portStream).

// errNoConnection: the time limit passed, or the client or the supervisor has gone.
var errNoConnection = errors.New("no connection within the time limit")

// dialPort answers Dial, in a goroutine of its own. Such a goroutine waits in the
// runtime's poller and never in a system call, so it needs no thread (see threads.go).
func (c *client) dialPort(m *wire.Message) error {
	if m.Port < 1 || m.Port > 65535 {
		return c.answer(m, failf(wire.CodeInvalid, "no TCP port has the number %d", m.Port))
	}
	limit := wire.DialLimit
	if m.Timeout > 0 && m.Timeout < uint64(limit) {
		limit = time.Duration(m.Timeout)
	}
	deadline := time.Now().Add(limit)
	socket, f := c.openDial(unix.AF_INET, deadline)
	if f != nil {
		return c.answer(m, f)
	}
	done := c.passSocket
	if !c.conn.PassesFiles() || c.oneWay {
		c.s.mu.Lock()
		cuts := c.cuts
		c.s.mu.Unlock()
		done = func(m *wire.Message, socket *os.File) error { return c.streamPort(m, socket, cuts) }
	}
	c.s.wg.Add(1)
	go func() {
		defer c.s.wg.Done()
		_ = c.connectPort(m, socket, deadline, done) // a broken connection ends Recv too
	}()
	return nil
}

// connectPort connects, and has done answer m with the socket, or says why there is none.
func (c *client) connectPort(m *wire.Message, socket *os.File, deadline time.Time, done func(*wire.Message, *os.File) error) error {
	addr := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: networkOrder(m.Port), Addr: [4]byte{127, 0, 0, 1}}
	err := connect(socket, unsafe.Pointer(addr), unsafe.Sizeof(*addr))
	if err == nil {
		return done(m, socket)
	}
	c.endDial(socket)
	if errors.Is(err, errNoConnection) {
		return c.answer(m, dialFailed(m.Port, err))
	}
	socket, f := c.openDial(unix.AF_INET6, deadline)
	if f != nil { // there may be no IPv6
		return c.answer(m, dialFailed(m.Port, err))
	}
	addr6 := &unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: networkOrder(m.Port), Addr: [16]byte{15: 1}}
	err6 := connect(socket, unsafe.Pointer(addr6), unsafe.Sizeof(*addr6))
	if err6 == nil {
		return done(m, socket)
	}
	c.endDial(socket)
	if errors.Is(err6, errNoConnection) {
		err = err6
	}
	return c.answer(m, dialFailed(m.Port, err))
}

// passSocket answers m with a connected socket, and closes ours.
func (c *client) passSocket(m *wire.Message, socket *os.File) error {
	defer c.endDial(socket)
	rc, err := socket.SyscallConn()
	if err != nil {
		return c.answer(m, dialFailed(m.Port, err))
	}
	var sent error
	err = rc.Control(func(fd uintptr) { sent = c.conn.Send(&wire.Message{Type: wire.Dialled, Req: m.Req}, int(fd)) })
	switch err = errors.Join(err, sent); {
	case err == nil:
		return nil
	case errors.Is(err, unix.ETOOMANYREFS):
		return c.answer(m, notPassed("a connection"))
	}
	return c.answer(m, failf(wire.CodeUnavailable, "cannot pass a connection: %v", err)) // as without a free descriptor
}

func dialFailed(port uint64, err error) *fail {
	switch {
	case errors.Is(err, errNoConnection):
		return failf(wire.CodeTimeout, "what listens on port %d takes no connection: %v", port, err)
	case errors.Is(err, unix.ECONNREFUSED):
		return failf(wire.CodeRefused, "nothing listens on port %d", port)
	}
	return failf(wire.CodeUnavailable, "cannot connect to port %d: %v", port, err)
}

// openDial makes a socket, which endDial closes. It is to be connected by a deadline.
func (c *client) openDial(family int, deadline time.Time) (*os.File, *fail) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return nil, failf(wire.CodeUnavailable, "cannot make a socket: %v", err)
	}
	socket := os.NewFile(uintptr(fd), "socket")
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var f *fail
	switch _, served := c.s.clients[c]; {
	case c.s.closing || !served:
		f = failf(wire.CodeUnavailable, "the connection to the warden has ended")
	case len(c.s.dials) >= wire.MaxDials:
		f = failf(wire.CodeUnavailable, "%d connections to ports are being made already", len(c.s.dials))
	default:
		if err := socket.SetWriteDeadline(deadline); err != nil {
			f = failf(wire.CodeUnavailable, "cannot wait for a connection: %v", err)
		}
	}
	if f != nil {
		socket.Close()
		return nil, f
	}
	c.s.dials[socket] = c
	return socket, nil
}

func (c *client) endDial(socket *os.File) {
	c.s.mu.Lock()
	delete(c.s.dials, socket)
	c.s.mu.Unlock()
	socket.Close()
}

// cutPorts ends the wait for connections of a client, or of all (nil), and the
// connections whose bytes travel in messages.
func (s *Supervisor) cutPorts(of *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of != nil {
		of.cuts++
	}
	for p := range s.ports {
		if of == nil || p.c == of {
			delete(s.ports, p)
			p.stop()
		}
	}
	s.cutDials(of)
}

// cutDials ends the wait for connections of a client, or of all (nil). mu is held.
func (s *Supervisor) cutDials(of *client) {
	for socket, c := range s.dials {
		if of == nil || c == of {
			_ = socket.SetWriteDeadline(time.Now()) // closed: its wait has ended
		}
	}
}

// connect connects a socket that does not block. The kernel tells by the same call
// again what became of it.
func connect(socket *os.File, addr unsafe.Pointer, size uintptr) error {
	rc, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	err = rc.Write(func(fd uintptr) bool {
		for {
			// It never waits: the runtime need not know.
			if _, _, errno = unix.RawSyscall(unix.SYS_CONNECT, fd, uintptr(addr), size); errno != unix.EINTR {
				break
			}
		}
		if errno == 0 || errno == unix.EISCONN {
			errno = 0
			if toItself(fd) {
				errno = unix.ECONNREFUSED
			}
		}
		return errno != unix.EINPROGRESS && errno != unix.EALREADY
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errNoConnection
	case err != nil:
		return err
	case errno != 0:
		return errno
	}
	return nil
}

// toItself tells whether a socket is connected to itself: the kernel gave it the port
// that it was to connect to, on which nothing listens, as its own.
func toItself(fd uintptr) bool {
	own, err := unix.Getsockname(int(fd))
	if err != nil {
		return false
	}
	peer, err := unix.Getpeername(int(fd))
	if err != nil {
		return false
	}
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		peer, ok := peer.(*unix.SockaddrInet4)
		return ok && own.Port == peer.Port
	case *unix.SockaddrInet6:
		peer, ok := peer.(*unix.SockaddrInet6)
		return ok && own.Port == peer.Port
	}
	return false
}

// networkOrder is a port as socket addresses have it.
func networkOrder(port uint64) uint16 {
	b := [2]byte{byte(port >> 8), byte(port)}
	return *(*uint16)(unsafe.Pointer(&b))
}
