package wardenexec

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// A command that is being started when the last warden is found to be gone is
// not one that was lost with it.
func TestStartWhenGone(t *testing.T) {
	begin := func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		if m.Type == wire.Start {
			f.started(m)
		}
	}
	first := newFake(t, begin)
	second := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		begin(f, m, fds)
		if m.Type == wire.Start {
			f.exited(m.ID)
		}
	})
	lost, gone := make(chan struct{}), make(chan struct{})
	calls := 0
	e := fakeExecutor(t, func(start bool) (wire.Conn, error) {
		calls++
		switch {
		case calls == 1:
			return first.gw, nil
		case !start:
			close(lost)
			<-gone
			return nil, ErrGone
		}
		time.Sleep(100 * time.Millisecond) // making a container
		return second.gw, nil
	})
	cmd := corral.Command{Args: []string{"x"}}
	if _, err := e.Start(context.Background(), cmd); err != nil {
		t.Fatal(err)
	}
	first.conn.Close()
	<-lost
	started := make(chan corral.Process, 1)
	go func() {
		p, err := e.Start(context.Background(), cmd)
		if err != nil {
			t.Error(err)
		}
		started <- p
	}()
	pollUntil(t, "the second start", func() bool { return len(e.all()) == 2 })
	close(gone)
	if p := <-started; p != nil {
		waitSoon(t, p)
	}
}

// A process whose connection ends after the answer to its Start, but before
// Start has taken it, goes on over the next.
func TestReconnectWhileStarting(t *testing.T) {
	answered := make(chan struct{})
	first := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		if m.Type == wire.Start {
			f.started(m)
			close(answered)
		}
	})
	second := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		if m.Type == wire.Attach {
			f.started(m)
			f.exited(m.ID)
		}
	})
	calls := 0
	e := fakeExecutor(t, func(bool) (wire.Conn, error) {
		calls++
		return []wire.Conn{first.gw, second.gw}[calls-1], nil
	})
	e.watcher.mu.Lock() // starting stops half way
	started := make(chan corral.Process, 1)
	go func() {
		p, err := e.Start(context.Background(), corral.Command{Args: []string{"x"}})
		if err != nil {
			t.Error(err)
		}
		started <- p
	}()
	<-answered
	time.Sleep(10 * time.Millisecond)
	old := e.current()
	first.conn.Close()
	pollUntil(t, "the next connection", func() bool { c := e.current(); return c != nil && c != old })
	time.Sleep(10 * time.Millisecond)
	e.watcher.mu.Unlock()
	if p := <-started; p != nil {
		waitSoon(t, p)
	}
}

// slowConn is about to send a Start when it is closed.
type slowConn struct {
	wire.Conn
	sending sync.Mutex
	begun   chan struct{}
	closed  chan struct{}
	once    sync.Once
	check   func(fds []int)
}

func (c *slowConn) Send(m *wire.Message, fds ...int) error {
	if m.Type == wire.Start {
		c.sending.Lock()
		defer c.sending.Unlock()
		close(c.begun)
		select {
		case <-c.closed:
		case <-time.After(100 * time.Millisecond):
		}
		c.check(fds)
	}
	return c.Conn.Send(m, fds...)
}

// Close waits for whoever sends, as that of a socket does.
func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.Conn.Close()
}

// Closing does not close the descriptors of a start before they are sent: by
// then their numbers may be those of something that is none of the warden's
// business.
func TestCloseWhileSending(t *testing.T) {
	f := newFake(t, func(_ *fake, _ *wire.Message, fds []int) { closeFDs(fds) })
	c := &slowConn{Conn: f.gw, begun: make(chan struct{}), closed: make(chan struct{})}
	c.check = func(fds []int) {
		for _, fd := range fds {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
				t.Errorf("descriptor %d was closed before it was sent: %v", fd, err)
			}
		}
	}
	e := fakeExecutor(t, func(bool) (wire.Conn, error) { return c, nil })
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := e.Start(context.Background(), corral.Command{Args: []string{"x"}, Stdin: true}); err == nil {
			t.Error("it was started")
		}
	}()
	<-c.begun
	e.Close()
	<-done
}

// Closing while commands are started leaves nothing behind.
func TestCloseWhileStarting(t *testing.T) {
	for i := range 100 {
		f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
			if m.Type == wire.Start {
				f.started(m)
				f.exited(m.ID)
			}
			closeFDs(fds)
		})
		e := fakeExecutor(t, f.connect)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				p, err := e.Start(context.Background(), corral.Command{Args: []string{"x"}})
				if err == nil {
					_, _ = p.Wait(context.Background()) // it may end by Close
				}
			})
		}
		time.Sleep(time.Duration(i%20) * 50 * time.Microsecond)
		e.Close()
		wg.Wait()
		f.gw.Close()
		f.conn.Close()
	}
}

// A warden that has dialled, and then ends since it has nothing to keep, is followed by
// another one: nobody hears of it. One after the other is an error.
func TestWardenEndsBeforeTheGreeting(t *testing.T) {
	for cut := range maxGreetings + 1 {
		f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
			closeFDs(fds)
			f.started(m)
			f.exited(m.ID)
		})
		dialled := 0
		e := fakeExecutor(t, func(bool) (wire.Conn, error) {
			if dialled++; dialled > cut {
				return f.gw, nil
			}
			a, b, err := wire.PacketPair()
			if err == nil {
				b.Close()
			}
			return a, err
		})
		_, err := e.Start(t.Context(), corral.Command{Shell: "x"})
		if lost := cut == maxGreetings; lost != (err != nil) || lost && !errors.Is(err, corral.ErrUnavailable) || dialled != min(cut+1, maxGreetings) {
			t.Errorf("%d cut: %v, %d dialled", cut, err, dialled)
		}
	}
}
