package wardenexec

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/tunnel"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// tcp returns both ends of a connection; the first is a descriptor, as a warden has it.
func tcp(t *testing.T) (fd, port int, peer *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	f, err := own.(*net.TCPConn).File() // which blocks, as a hostile warden may have it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd()), l.Addr().(*net.TCPAddr).Port, accepted.(*net.TCPConn)
}

// answering is an executor whose warden answers Dial with these descriptors, and sees
// to it that they are closed here.
func answering(t *testing.T, fds ...int) *Executor {
	t.Helper()
	f := newFake(t, func(f *fake, m *wire.Message, _ []int) {
		if m.Type == wire.Dial {
			f.send(&wire.Message{Type: wire.Dialled, Req: m.Req}, fds...)
		}
	})
	return fakeExecutor(t, f.connect)
}

func TestDial(t *testing.T) {
	fd, port, peer := tcp(t)
	conn, err := answering(t, fd).Dial(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.RemoteAddr().(*net.TCPAddr).Port; got != port {
		t.Errorf("it is connected to %d, not %d", got, port)
	}
	// More than fits into the socket.
	big := strings.Repeat("0123456789abcdef", 1<<18)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, big)
		sent <- errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite())
	}()
	if got, err := io.ReadAll(peer); err != nil || string(got) != big {
		t.Errorf("%d bytes of %d, %v", len(got), len(big), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, err := peer.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	peer.Close()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading after Close: %v", err)
	}
	if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing again: %v", err)
	}
}

// What a warden keeps of a socket lets nobody here wait.
func TestDialHostileSocket(t *testing.T) {
	fd, port, _ := tcp(t)
	conn, err := answering(t, fd).Dial(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing what nobody reads: %v", err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	time.Sleep(10 * time.Millisecond)
	begin := time.Now()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) { // whichever the reader sees first
		t.Errorf("reading: %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("closing took %v", took)
	}
	if l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err != nil || l.Onoff != 0 {
		t.Errorf("it lingers: %+v, %v", l, err)
	}
}

// Nor does the kernel wait for it when it moves the bytes itself.
func TestDialHostileSplice(t *testing.T) {
	fd, port, peer := tcp(t)
	conn, err := answering(t, fd).Dial(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, client := tcp(t)
	joined := make(chan error, 1)
	go func() { joined <- tunnel.Join(ctx, tunnel.End{Conn: conn.(tunnel.Conn)}, tunnel.End{Conn: client}) }()
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Write([]byte("x")); err != nil { // after which it waits in splice(2)
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	select {
	case <-joined:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for what a sandbox does not send")
	}
}

func TestDialChecksTheSocket(t *testing.T) {
	socket := func(domain, kind, protocol int) int {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]); null.Close() })
	listening := socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err := unix.Listen(listening, 1); err != nil {
		t.Fatal(err)
	}
	udp := socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err := unix.Connect(udp, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	good, port, _ := tcp(t)
	for name, c := range map[string]struct {
		fds  []int
		port int
		text string
	}{
		"none":        {nil, port, "without a connection"},
		"two":         {[]int{good, good}, port, "without a connection"},
		"file":        {[]int{int(null.Fd())}, port, "no socket"},
		"unix":        {[]int{pair[0]}, port, "domain"},
		"udp":         {[]int{udp}, 9, "type"},
		"unconnected": {[]int{socket(unix.AF_INET6, unix.SOCK_STREAM, 0)}, port, "not connected"},
		"listening":   {[]int{listening}, port, "not connected"},
		"other port":  {[]int{good}, port - 1, "connected to"},
	} {
		e := answering(t, c.fds...)
		before := openFDs(t)
		conn, err := e.Dial(t.Context(), c.port)
		if conn != nil || !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
		if now := openFDs(t); now > before+1 { // the connection to the warden
			t.Errorf("%s: %d descriptors are open, and %d were before", name, now, before)
		}
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestDialErrors(t *testing.T) {
	var code atomic.Uint64
	f := newFake(t, func(f *fake, m *wire.Message, _ []int) {
		if m.Type == wire.Dial && code.Load() != 0 {
			f.send(&wire.Message{Type: wire.Error, Req: m.Req, Code: wire.Code(code.Load()), Text: "no\n"})
		}
	})
	e := fakeExecutor(t, f.connect)
	for c, kind := range map[wire.Code]error{
		wire.CodeRefused: corral.ErrNotListening, wire.CodeTimeout: corral.ErrUnavailable, wire.CodeUnsupported: errors.ErrUnsupported,
	} {
		code.Store(uint64(c))
		if _, err := e.Dial(t.Context(), 80); !errors.Is(err, kind) || err.Error() != "no " {
			t.Errorf("%d: %v", c, err)
		}
	}
	for _, port := range []int{-1, 0, 65536} {
		if _, err := e.Dial(t.Context(), port); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	code.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Dial(ctx, 80); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("a warden that does not answer: %v", err)
	}
}

func TestDialUnsupported(t *testing.T) {
	f := newFake(t, func(*fake, *wire.Message, []int) {})
	f.old.Store(true)
	e := fakeExecutor(t, f.connect)
	if _, err := e.Dial(t.Context(), 80); !errors.Is(err, errors.ErrUnsupported) || corral.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	gone := fakeExecutor(t, func(bool) (wire.Conn, error) { return nil, ErrGone })
	if _, err := gone.Dial(t.Context(), 80); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
}
