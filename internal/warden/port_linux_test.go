package warden

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// dialled asks a warden for a connection, and returns the answer with the connection.
func dialled(t *testing.T, gw *wire.Packets, req, port uint64) (*wire.Message, net.Conn) {
	t.Helper()
	if err := gw.Send(&wire.Message{Type: wire.Dial, Req: req, Port: port, Timeout: uint64(300 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	m, fds, err := gw.Recv()
	if err != nil || m.Req != req {
		t.Fatalf("%+v, %v", m, err)
	}
	if m.Type != wire.Dialled {
		if len(fds) > 0 {
			t.Errorf("%+v with descriptors", m)
		}
		return m, nil
	}
	if len(fds) != 1 {
		t.Fatalf("%d descriptors", len(fds))
	}
	f := os.NewFile(uintptr(fds[0]), "socket")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return m, conn
}

func portOf(t *testing.T, l net.Listener) uint64 {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	return uint64(l.Addr().(*net.TCPAddr).Port)
}

func serving(t *testing.T) (gw *wire.Packets) {
	t.Helper()
	s, gw, theirs := unserved(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(theirs) }()
	t.Cleanup(func() {
		gw.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return gw
}

func TestDialPort(t *testing.T) {
	gw := serving(t)
	for i, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = io.Copy(c, c)
				c.Close()
			}
		}()
		m, conn := dialled(t, gw, uint64(10+i), portOf(t, l))
		if conn == nil {
			t.Fatalf("%s: %+v", address, m)
		}
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
}

func TestDialPortFails(t *testing.T) {
	gw := serving(t)
	before := openFDs(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := portOf(t, l)
	l.Close()
	for _, c := range []struct {
		port uint64
		code wire.Code
		text string
	}{
		{free, wire.CodeRefused, fmt.Sprint("nothing listens on port ", free)},
		{0, wire.CodeInvalid, "no TCP port"},
		{1 << 16, wire.CodeInvalid, "no TCP port"},
		{full(t), wire.CodeTimeout, "takes no connection"},
	} {
		if m, conn := dialled(t, gw, 2, c.port); conn != nil || m.Type != wire.Error || m.Code != c.code || !strings.Contains(m.Text, c.text) {
			t.Errorf("port %d: %+v", c.port, m)
		}
	}
	if now := openFDs(t); now > before+3 { // of full
		t.Errorf("%d descriptors are open, and %d were before", now, before)
	}
}

// full is a port of a listener that accepts nothing, and whose queue is full.
func full(t *testing.T) (port uint64) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port = uint64(sa.(*unix.SockaddrInet4).Port)
	for {
		conn, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), 100*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { conn.Close() })
	}
}

// So many connections are made at a time, and they end with the gateway's.
func TestDialPortIsBounded(t *testing.T) {
	s, gw, theirs := unserved(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(theirs) }()
	port := full(t)
	for i := range uint64(wire.MaxDials + 1) {
		if err := gw.Send(&wire.Message{Type: wire.Dial, Req: i + 1, Port: port}); err != nil {
			t.Fatal(err)
		}
	}
	m, _, err := gw.Recv()
	if err != nil || m.Code != wire.CodeUnavailable || m.Req != wire.MaxDials+1 {
		t.Errorf("one too many: %+v, %v", m, err)
	}
	begin := time.Now()
	gw.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.Close()
	if took := time.Since(begin); took > wire.DialLimit/2 {
		t.Errorf("it took %v until nothing waited any more", took)
	}
	if len(s.dials) > 0 {
		t.Errorf("%d sockets are left", len(s.dials))
	}
}

// Where the kernel passes no descriptor, it says so, and the connection to the gateway
// stays.
func TestDialPortNotPassed(t *testing.T) {
	s, gw, theirs := unserved(t)
	full := &atomic.Bool{}
	served := make(chan error, 1)
	go func() { served <- s.Serve(unpassable{theirs, full}) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(t, l)
	full.Store(true)
	if m, _ := dialled(t, gw, 1, port); m.Type != wire.Error || m.Code != wire.CodeUnavailable || !strings.Contains(m.Text, "the descriptors of a connection") {
		t.Errorf("%+v", m)
	}
	full.Store(false)
	if m, conn := dialled(t, gw, 2, port); conn == nil {
		t.Errorf("afterwards: %+v", m)
	}
	gw.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.Close()
}
