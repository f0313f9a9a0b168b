package wardenexec

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// overWarden is an executor over a warden that can pass no descriptor out, and what cuts
// the connection to it.
func overWarden(t *testing.T, oneWay bool) (e *Executor, cut func()) {
	t.Helper()
	s, err := warden.New(warden.Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var last wire.Conn
	connect := func(bool) (wire.Conn, error) {
		var gw, theirs wire.Conn
		if oneWay {
			a, b, err := wire.PacketPair()
			if err != nil {
				return nil, err
			}
			a.SetOneWay()
			gw, theirs = a, b
		} else {
			a, b := net.Pipe()
			gw, theirs = wire.NewFrames(a, a, a), wire.NewFrames(b, b, b)
		}
		wg.Go(func() { _ = s.Serve(theirs) }) // until it is cut
		mu.Lock()
		defer mu.Unlock()
		last = gw
		return gw, nil
	}
	e = fakeExecutor(t, connect)
	t.Cleanup(func() { // before the executor's
		e.Close()
		s.Close()
		wg.Wait()
	})
	return e, func() {
		mu.Lock()
		defer mu.Unlock()
		last.Close()
	}
}

func eachCarrier(t *testing.T, test func(t *testing.T, e *Executor, cut func())) {
	for name, oneWay := range map[string]bool{"frames": false, "one way": true} {
		t.Run(name, func(t *testing.T) {
			e, cut := overWarden(t, oneWay)
			test(t, e, cut)
		})
	}
}

// listening serves each connection to a port by a function.
func listening(t *testing.T, serve func(*net.TCPConn)) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

func TestDialInMessages(t *testing.T) {
	eachCarrier(t, func(t *testing.T, e *Executor, _ func()) {
		port := listening(t, func(c *net.TCPConn) { // all of it comes back after its end
			all, _ := io.ReadAll(c)
			_, _ = c.Write(all)
		})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				conn, err := e.Dial(t.Context(), port)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				sum := sha256.New()
				if _, err := io.Copy(conn, io.TeeReader(io.LimitReader(rand.Reader, 4<<20+1), sum)); err != nil {
					t.Error(err)
				}
				if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
				if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("writing after the end: %v", err)
				}
				got := sha256.New()
				if n, err := io.Copy(got, conn); err != nil || !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
					t.Errorf("%d bytes came back, %v", n, err)
				}
			})
		}
		wg.Wait()
		if _, err := e.Dial(t.Context(), 1); !errors.Is(err, corral.ErrNotListening) {
			t.Errorf("nothing listens: %v", err)
		}
		if n := len(e.current().ports); n != 0 {
			t.Errorf("%d connections are known yet", n)
		}
	})
}

// A program that reads nothing holds up its own connection, and nobody else's; Close
// ends that.
func TestDialInMessagesStalls(t *testing.T) {
	eachCarrier(t, func(t *testing.T, e *Executor, _ func()) {
		over := make(chan struct{})
		deaf := listening(t, func(*net.TCPConn) { <-over })
		defer close(over)
		conn, err := e.Dial(t.Context(), deaf)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("writing: %v", err)
		}
		if err := conn.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading: %v", err)
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 2)
		go func() { _, err := conn.Read(make([]byte, 1)); results <- err }()
		go func() { _, err := conn.Write(make([]byte, 64<<20)); results <- err }()
		// Another connection meanwhile, to what sends more than anybody reads.
		talks := listening(t, func(c *net.TCPConn) { _, _ = io.Copy(c, strings.NewReader(strings.Repeat("x", 16<<20))) })
		other, err := e.Dial(t.Context(), talks)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.CopyN(io.Discard, other, 1<<20); err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if err := errors.Join(other.Close(), conn.Close()); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-results; !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) {
				t.Errorf("after Close: %v", err)
			}
		}
		if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closing again: %v", err)
		}
	})
}

// With the connection to the warden, or to the program, a connection ends.
func TestDialInMessagesCut(t *testing.T) {
	eachCarrier(t, func(t *testing.T, e *Executor, cut func()) {
		reset := listening(t, func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.SetLinger(0)
		})
		conn, err := e.Dial(t.Context(), reset)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
			t.Errorf("a program that cuts the connection: %v", err)
		}
		if _, err := conn.Write([]byte("x")); err == nil {
			t.Error("written to what was cut")
		}
		conn.Close()
		ended := make(chan struct{})
		port := listening(t, func(c *net.TCPConn) {
			_, _ = io.Copy(io.Discard, c)
			close(ended)
		})
		if conn, err = e.Dial(t.Context(), port); err != nil {
			t.Fatal(err)
		}
		cut()
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("a warden that is gone: %v", err)
		}
		conn.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the warden keeps a connection of a gateway that is gone")
		}
	})
}

// So many are open at a time.
func TestDialInMessagesIsBounded(t *testing.T) {
	e, _ := overWarden(t, true)
	port := listening(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	var open []net.Conn
	for range wire.MaxPorts {
		conn, err := e.Dial(t.Context(), port)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	if _, err := e.Dial(t.Context(), port); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "no more") {
		t.Errorf("one too many: %v", err)
	}
	for _, conn := range open {
		conn.Close()
	}
	pollUntil(t, "another connection", func() bool {
		conn, err := e.Dial(t.Context(), port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// A warden that sends what it may not ends the connection, and nothing else.
func TestDialInMessagesHostile(t *testing.T) {
	data := func(f *fake, m *wire.Message) { m.Type = wire.PortData; f.send(m) }
	for name, lie := range map[string]func(f *fake, n uint64){
		"too much": func(f *fake, n uint64) {
			for i := range uint64(3) {
				data(f, &wire.Message{Stream: n, Offset: i << 16, Data: make([]byte, 1<<16)})
			}
		},
		"a gap": func(f *fake, n uint64) { data(f, &wire.Message{Stream: n, Offset: 1, Data: []byte("x")}) },
		"after EOF": func(f *fake, n uint64) {
			data(f, &wire.Message{Stream: n, Flags: wire.FlagEOF})
			data(f, &wire.Message{Stream: n, Data: []byte("x")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan uint64, 1)
			f := newFake(t, func(f *fake, m *wire.Message, _ []int) {
				switch m.Type {
				case wire.Dial:
					f.send(&wire.Message{Type: wire.Dialled, Req: m.Req, Limit: 1 << 63})
				case wire.PortAck:
					f.send(&wire.Message{Type: wire.PortAck, Stream: m.Stream, Limit: 1 << 63})
					lie(f, m.Stream)
				case wire.PortClose:
					closed <- m.Stream
				}
			})
			f.gw.(*wire.Packets).SetOneWay()
			e := fakeExecutor(t, f.connect)
			conn, err := e.Dial(t.Context(), 80)
			if err != nil {
				t.Fatal(err)
			}
			p := conn.(*portStream)
			pollUntil(t, "an error", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.limit < 0 || p.limit > wire.PortWindow {
					t.Errorf("%d bytes may be sent", p.limit)
				}
				return p.err != nil
			})
			if p.held.Len() > wire.PortWindow {
				t.Errorf("%d bytes are held", p.held.Len())
			}
			conn.Close()
			if n := <-closed; n != p.number {
				t.Errorf("the warden was told to close %d, not %d", n, p.number)
			}
		})
	}
}
