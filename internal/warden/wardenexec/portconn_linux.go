package wardenexec

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// portConn is a TCP connection whose socket a warden made. The warden and what runs
// beside it may still hold the socket, and may have its description changed at any
// time: so no call relies on it being non-blocking, and none waits for data that
// lingers.
type portConn struct {
	f             *os.File
	rc            syscall.RawConn
	local, remote net.Addr
	closed        atomic.Bool
}

// newPortConn takes over a descriptor, and checks what it is.
func newPortConn(fd, port int) (net.Conn, error) {
	local, remote, err := checkSocket(fd, port)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		dontLinger(fd)
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "port")
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &portConn{f: f, rc: rc, local: local, remote: remote}, nil
}

// checkSocket makes sure that a descriptor is a TCP socket that is connected to a port
// of a loopback interface.
func checkSocket(fd, port int) (local, remote net.Addr, err error) {
	for _, o := range []struct {
		option int
		name   string
		want   []int
	}{
		{unix.SO_DOMAIN, "domain", []int{unix.AF_INET, unix.AF_INET6}},
		{unix.SO_TYPE, "type", []int{unix.SOCK_STREAM, unix.SOCK_STREAM}},
		{unix.SO_PROTOCOL, "protocol", []int{unix.IPPROTO_TCP, unix.IPPROTO_TCP}},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.option)
		if err != nil {
			return nil, nil, fmt.Errorf("it is no socket: %w", err)
		}
		if got != o.want[0] && got != o.want[1] {
			return nil, nil, fmt.Errorf("it is a socket of %s %d", o.name, got)
		}
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("it is not connected: %w", err)
	}
	to := tcpAddr(peer)
	if !to.IP.IsLoopback() || to.Port != port {
		return nil, nil, fmt.Errorf("it is connected to %s", to)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return nil, nil, err
	}
	return tcpAddr(own), to, nil
}

func tcpAddr(sa unix.Sockaddr) *net.TCPAddr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	}
	return &net.TCPAddr{}
}

func (c *portConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := 0, error(nil)
	rerr := c.rc.Read(func(fd uintptr) bool {
		for {
			if n, _, err = unix.Recvfrom(int(fd), p, unix.MSG_DONTWAIT); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, c.failed("read", rerr)
	case err != nil:
		return 0, c.failed("read", os.NewSyscallError("recvfrom", err))
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (c *portConn) Write(p []byte) (sent int, err error) {
	for sent < len(p) {
		n := 0
		werr := c.rc.Write(func(fd uintptr) bool {
			for {
				if n, err = unix.SendmsgN(int(fd), p[sent:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
					return !errors.Is(err, unix.EAGAIN)
				}
			}
		})
		switch {
		case werr != nil:
			return sent, c.failed("write", werr)
		case err != nil:
			return sent, c.failed("write", os.NewSyscallError("sendmsg", err))
		}
		sent += n
	}
	return sent, nil
}

// CloseWrite ends what is written: the other side reads the end of it.
func (c *portConn) CloseWrite() error {
	var err error
	if cerr := c.rc.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) }); cerr != nil {
		return c.failed("close", cerr)
	}
	if err != nil && !errors.Is(err, unix.ENOTCONN) { // reset by the other side
		return c.failed("close", os.NewSyscallError("shutdown", err))
	}
	return nil
}

func (c *portConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	_ = c.rc.Control(func(fd uintptr) {
		dontLinger(int(fd))
		_ = unix.Shutdown(int(fd), unix.SHUT_RDWR) // what waits in the kernel (splice) does so no more
	}) // it is closed in any case
	return c.f.Close()
}

// dontLinger keeps close(2) of a socket from waiting until the other side has read all.
// Others have the socket too, and may have set it to wait.
func dontLinger(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}) // no socket: it does not linger
}

func (c *portConn) failed(op string, err error) error {
	if c.closed.Load() {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// SyscallConn implements syscall.Conn.
func (c *portConn) SyscallConn() (syscall.RawConn, error) { return c.rc, nil }

func (c *portConn) LocalAddr() net.Addr                { return c.local }
func (c *portConn) RemoteAddr() net.Addr               { return c.remote }
func (c *portConn) SetDeadline(t time.Time) error      { return c.f.SetDeadline(t) }
func (c *portConn) SetReadDeadline(t time.Time) error  { return c.f.SetReadDeadline(t) }
func (c *portConn) SetWriteDeadline(t time.Time) error { return c.f.SetWriteDeadline(t) }
