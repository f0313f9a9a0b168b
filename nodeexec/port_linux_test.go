package nodeexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
)

// withPorts is the executor of a node whose ports are those of this machine.
type withPorts struct{ *fakeexec.Executor }

func (withPorts) DialPort(ctx context.Context, agent string, port int) (net.Conn, error) {
	if agent != "main" {
		return nil, corral.Errorf(corral.ErrDenied, "be main", "not for %q", agent)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// portRig is a node, by a link that can be cut, and what listens there.
func portRig(t *testing.T) (r *rig, link *proxy, accepted chan *net.TCPConn, dial func() net.Conn) {
	t.Helper()
	r = newRig(t)
	link = newProxy(t, r.broker.Addr().String())
	r.address = "tls://" + link.listener.Addr().String()
	x := withPorts{&fakeexec.Executor{}}
	t.Cleanup(func() { _ = x.Close() })
	r.open()
	r.serve(x, quick())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accepted = make(chan *net.TCPConn, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn.(*net.TCPConn)
		}
	}()
	node := r.node().(*nodeexec.Node)
	return r, link, accepted, func() net.Conn {
		t.Helper()
		conn, err := node.DialPort(corral.WithAgent(t.Context(), "main"), l.Addr().(*net.TCPAddr).Port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

type half interface {
	net.Conn
	CloseWrite() error
}

// carry has one end send data and its end, and the other get just that.
func carry(t *testing.T, from, to net.Conn, data []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(data)
		sent <- errors.Join(err, from.(half).CloseWrite())
	}()
	got, err := io.ReadAll(to)
	if serr := <-sent; err != nil || serr != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of %d arrived: %v, %v", len(got), len(data), err, serr)
	}
}

// gone has a connection end, whether with an error or not.
func gone(t *testing.T, conn net.Conn) error {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := conn.Read(make([]byte, 1))
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection goes on: %v", err)
	}
	return err
}

// A connection goes both ways, each with its end, also over a link that is cut.
func TestPorts(t *testing.T) {
	_, link, accepted, dial := portRig(t)
	data := patternOf(2 << 20)
	conn := dial()
	there := <-accepted
	ctx, over := context.WithCancel(t.Context())
	var cutter sync.WaitGroup
	cuts := 0
	cutter.Go(func() {
		for link.more(ctx, int64(len(data))/3) {
			link.cut()
			cuts++
		}
	})
	carry(t, there, conn, data)
	carry(t, conn, there, data)
	over()
	if cutter.Wait(); cuts < 4 {
		t.Errorf("only %d cuts", cuts)
	}

	// A deadline ends a read, and the next one goes on.
	conn = dial()
	there = <-accepted
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	// What is not read holds up this connection alone.
	n, err := conn.Write(make([]byte, 1000))
	if n != 1000 || err != nil {
		t.Error(n, err)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	m, err := conn.Write(make([]byte, 64<<20))
	if n += m; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	conn.Close()
	if got, _ := io.Copy(io.Discard, there); got != int64(n) {
		t.Errorf("%d bytes of %d arrived", got, n)
	}
}

// What ends a connection on one side ends it on the other.
func TestPortEnds(t *testing.T) {
	r, _, accepted, dial := portRig(t)
	conn := dial()
	there := <-accepted
	_ = there.SetLinger(0)
	there.Close()
	if err := gone(t, conn); errors.Is(err, io.EOF) {
		t.Error("no error of a connection that was reset")
	}

	conn = dial()
	there = <-accepted
	conn.Close()
	_ = gone(t, there)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}

	// The node's program ends, and another life of it has no connections.
	conn = dial()
	there = <-accepted
	r.stop()
	_ = gone(t, there)
	x := withPorts{&fakeexec.Executor{}}
	t.Cleanup(func() { _ = x.Close() })
	r.serve(x)
	if err := gone(t, conn); !errors.Is(err, corral.ErrLost) {
		t.Error(err)
	}

	conn = dial()
	there = <-accepted
	r.end()
	_ = gone(t, there)
	_ = gone(t, conn)
}

// What cannot be connected to says why.
func TestPortRefused(t *testing.T) {
	r, _, _, _ := portRig(t)
	node := r.node().(*nodeexec.Node)
	if _, err := node.DialPort(corral.WithAgent(t.Context(), "other"), 80); !errors.Is(err, corral.ErrDenied) || corral.Hint(err) != "be main" {
		t.Error(err)
	}
	r.stop()
	r.serve(&fakeexec.Executor{})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := node.DialPort(corral.WithAgent(t.Context(), "main"), 80)
		if errors.Is(err, errors.ErrUnsupported) && strings.Contains(corral.Hint(err), "upgrade") {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// BenchmarkPort moves what a node's port sends.
func BenchmarkPort(b *testing.B) {
	r := newRig(b)
	x := withPorts{&fakeexec.Executor{}}
	b.Cleanup(func() { _ = x.Close() })
	r.open()
	r.serve(x)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	const size = 64 << 20
	node := r.node().(*nodeexec.Node)
	for _, out := range []bool{true, false} {
		name := map[bool]string{true: "read", false: "write"}[out]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				conn, err := node.DialPort(corral.WithAgent(b.Context(), "main"), l.Addr().(*net.TCPAddr).Port)
				if err != nil {
					b.Fatal(err)
				}
				there, err := l.Accept()
				if err != nil {
					b.Fatal(err)
				}
				from, to := conn, there
				if out {
					from, to = there, conn
				}
				go func() {
					buf := make([]byte, 256<<10)
					for range size / len(buf) {
						_, _ = from.Write(buf)
					}
					_ = from.(half).CloseWrite()
				}()
				if n, err := io.Copy(io.Discard, to); n != size || err != nil {
					b.Fatal(n, err)
				}
				conn.Close()
				there.Close()
			}
		})
	}
}

var _ fabric.PortDialer = withPorts{}
