package wardenexec

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
)

// fake is a connection to a warden that does what a test says.
type fake struct {
	t      *testing.T
	gw     wire.Conn // the executor's end
	conn   *wire.Packets
	handle func(f *fake, m *wire.Message, fds []int)

	old atomic.Bool // it knows nothing but what the first wardens did
}

// newFake greets with items, and hands everything else to handle, which owns
// the descriptors.
func newFake(t *testing.T, handle func(*fake, *wire.Message, []int), items ...*wire.Message) *fake {
	a, b, err := wire.PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, gw: a, conn: b, handle: handle}
	done := make(chan struct{})
	t.Cleanup(func() {
		b.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			m, fds, err := b.Recv()
			if err != nil {
				return
			}
			if m.Type != wire.Hello {
				handle(f, m, fds)
				continue
			}
			hello := &wire.Message{Type: wire.Hello, Req: m.Req, Epoch: m.Epoch, StartedAt: 1}
			if !f.old.Load() {
				hello.Features = []string{wire.FeatureDial}
			}
			f.send(hello)
			for _, item := range items {
				f.send(item)
			}
			f.send(&wire.Message{Type: wire.OK, Req: m.Req})
		}
	}()
	return f
}

// send does not mind that the executor may be gone.
func (f *fake) send(m *wire.Message, fds ...int) { _ = f.conn.Send(m, fds...) }

func (f *fake) exited(id string) { f.send(&wire.Message{Type: wire.Exited, ID: id}) }

func (f *fake) started(m *wire.Message, fds ...int) {
	f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: m.Tag}, fds...)
}

// fakeExecutor connects by connect.
func fakeExecutor(t *testing.T, connect func(start bool) (wire.Conn, error)) *Executor {
	e, err := New(Options{
		Dir:     t.TempDir(),
		Connect: func(_ context.Context, start bool) (wire.Conn, error) { return connect(start) },
		Prepare: func(context.Context, corral.Command) (pathenv.Plan, error) {
			return pathenv.Plan{Args: []string{"x"}, Dir: "/"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func (f *fake) connect(bool) (wire.Conn, error) { return f.gw, nil }

// pollUntil waits for something that happens in another goroutine.
func pollUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what + ": never")
		}
	}
}

func waitSoon(t *testing.T, p corral.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func logOf(t *testing.T, p corral.Process) string {
	t.Helper()
	all := ""
	buf := make([]byte, 1000)
	for off := int64(0); ; {
		c, err := p.Log().Read(context.Background(), off, buf)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all += string(c.Data)
		off = c.Next()
	}
}

func say(t *testing.T, fd int, text string) {
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		t.Error(err)
	}
}
