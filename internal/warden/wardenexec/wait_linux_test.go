package wardenexec

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// far is much longer than a call whose context has ended takes, also on a busy
// machine, and much shorter than what holds up others here.
const far = 3 * time.Second

// endsWith makes a call whose context ends soon; it has to end with it.
func endsWith(t *testing.T, what string, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := call(ctx)
	if took := time.Since(begun); took > far {
		t.Errorf("%s took %v", what, took)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v", what, err)
	}
}

// What waits for a connection that another call is making ends with its context.
func TestNobodyWaitsForAnothersDial(t *testing.T) {
	release := make(chan struct{})
	defer time.AfterFunc(2*far, func() { close(release) }).Stop()
	f := newFake(t, func(_ *fake, _ *wire.Message, fds []int) { closeFDs(fds) })
	dialled := make(chan struct{}, 1)
	e := fakeExecutor(t, func(bool) (wire.Conn, error) {
		dialled <- struct{}{}
		<-release
		return f.gw, nil
	})
	if err := e.records.start("earlier", 1, tag{}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = e.Reach(context.Background()) }() // ends with the test
	<-dialled
	endsWith(t, "Start", func(ctx context.Context) error {
		_, err := e.Start(ctx, corral.Command{ID: "x", Args: []string{"x"}})
		return err
	})
	endsWith(t, "Attach", func(ctx context.Context) error {
		_, err := e.Attach(ctx, "earlier")
		return err
	})
	endsWith(t, "Signal", func(ctx context.Context) error {
		return newProcess(e, "x").Signal(ctx, corral.SIGTERM)
	})
	select {
	case <-release:
		t.Error("the dial was over")
	default:
		close(release)
	}
}

// A warden that is stopped takes nothing more at some point: no call waits longer
// than its context for that, or for another that does.
func TestNobodyWaitsForAFullSocket(t *testing.T) {
	gw, warden, err := wire.PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer warden.Close()
	e := fakeExecutor(t, func(bool) (wire.Conn, error) { return gw, nil })
	hello := make(chan error, 1)
	go func() { // and nothing more
		m, _, err := warden.Recv()
		if err == nil {
			err = errors.Join(warden.Send(&wire.Message{Type: wire.Hello, Req: m.Req, Epoch: m.Epoch, StartedAt: 1}),
				warden.Send(&wire.Message{Type: wire.OK, Req: m.Req}))
		}
		hello <- err
	}()
	if _, err := e.Reach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-hello; err != nil {
		t.Fatal(err)
	}
	full := &wire.Message{Type: wire.Forget, Data: make([]byte, 32<<10)}
	for gw.SendContext(shortly(t), full) == nil {
		continue
	}
	stuck, release := context.WithCancel(t.Context())
	defer release()
	other := make(chan struct{})
	go func() {
		defer close(other)
		_ = newProcess(e, "y").Signal(stuck, corral.SIGTERM)
	}()
	defer func() { release(); <-other }()
	e.acks.add("x", e.current)
	endsWith(t, "Start", func(ctx context.Context) error {
		_, err := e.Start(ctx, corral.Command{ID: "x", Args: []string{"x"}})
		if errors.Is(err, corral.ErrLost) {
			t.Errorf("nothing was sent: %v", err)
		}
		return err
	})
	endsWith(t, "Start of another", func(ctx context.Context) error {
		_, err := e.Start(ctx, corral.Command{ID: "z", Args: []string{"x"}})
		return err
	})
	endsWith(t, "Signal", func(ctx context.Context) error { return newProcess(e, "x").Signal(ctx, corral.SIGTERM) })
}

func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// A process that is closed while the warden cannot be told gets its end of file when
// it can be.
func TestCloseStdinIsToldInTheEnd(t *testing.T) {
	var told atomic.Int32
	answer := make(chan bool, 1)
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		switch m.Type {
		case wire.Start:
			f.started(m)
		case wire.CloseStdin:
			if told.Add(1); <-answer {
				f.send(&wire.Message{Type: wire.OK, Req: m.Req})
			}
		}
	})
	p, err := fakeExecutor(t, f.connect).Start(t.Context(), corral.Command{Args: []string{"x"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	answer <- false
	endsWith(t, "CloseStdin", p.CloseStdin)
	answer <- true
	for range 2 {
		if err := p.CloseStdin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := told.Load(); n != 2 {
		t.Errorf("the warden was told %d times", n)
	}
}

// A connection that breaks whenever it is used is not made again without a pause,
// and neither is an attach that the warden refuses.
func TestNoStormOfConnections(t *testing.T) {
	const over = time.Second
	for _, tc := range []struct {
		name   string
		refuse bool // rather than to break the connection
	}{{"the connection breaks", false}, {"the warden refuses", true}} {
		t.Run(tc.name, func(t *testing.T) {
			var connections, attaches atomic.Int32
			var kept []int
			calm := make(chan struct{})
			handle := func(f *fake, m *wire.Message, fds []int) {
				switch m.Type {
				case wire.Start:
					kept = fds[len(fds)/2:]
					closeFDs(fds[:len(fds)/2])
					f.started(m)
					return
				case wire.Attach:
					attaches.Add(1)
					select {
					case <-calm:
						f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: []byte("{}")})
						f.exited(m.ID)
					default:
						if !tc.refuse {
							f.conn.Close()
							break
						}
						f.send(&wire.Message{Type: wire.Error, Req: m.Req, Text: "too many references"})
					}
				}
				closeFDs(fds)
			}
			var last atomic.Pointer[fake]
			e := fakeExecutor(t, func(bool) (wire.Conn, error) {
				connections.Add(1)
				f := newFake(t, handle)
				last.Store(f)
				return f.gw, nil
			})
			e.log = slog.New(slog.NewTextHandler(io.Discard, nil))
			p, err := e.Start(t.Context(), corral.Command{Args: []string{"x"}})
			if err != nil {
				t.Fatal(err)
			}
			last.Load().conn.Close()
			time.Sleep(over)
			if c, a := connections.Load(), attaches.Load(); c > 20 || a > 20 || a < 2 {
				t.Errorf("%d connections and %d attaches in %v", c, a, over)
			}
			close(calm)
			waitSoon(t, p)
			for _, fd := range kept {
				unix.Close(fd)
			}
		})
	}
}
