package warden

import (
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// What a gateway asked for last before it died has been done when the next one is
// greeted, however late it is read.
func TestHearOut(t *testing.T) {
	s, err := New(Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 20 {
		id := string(rune('a' + i))
		old, theirs, err := wire.PacketPair()
		if err != nil {
			t.Fatal(err)
		}
		var out [2]int
		if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		// Said before anybody listens, and then it dies.
		err = errors.Join(
			old.Send(&wire.Message{Type: wire.Start, Req: 2, ID: id, Args: []string{"/bin/sleep", "60"}, Dir: "/", Flags: wire.FlagMerge}, out[1], out[0]),
			old.Close(), unix.Close(out[0]), unix.Close(out[1]))
		if err != nil {
			t.Fatal(err)
		}
		ours, next, err := wire.PacketPair()
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{}, 2)
		go func() { _ = s.Serve(theirs); served <- struct{}{} }()
		for s.clientCount() == 0 && !s.has(id) { // it is about to be read
			runtime.Gosched()
		}
		go func() { _ = s.Serve(next); served <- struct{}{} }()
		if err := ours.Send(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version}); err != nil {
			t.Fatal(err)
		}
		found := false
		for {
			m, _, err := ours.Recv()
			if err != nil {
				t.Fatal(err)
			}
			found = found || m.Type == wire.Item && m.ID == id
			if m.Type == wire.OK {
				break
			}
		}
		if !found {
			t.Errorf("%s was asked for and is not listed", id)
		}
		ours.Close()
		<-served
		<-served
	}
}

func (s *Supervisor) clientCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

func (s *Supervisor) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.procs[id] != nil
}

// Two gateways that died while they were greeted do not wait for each other.
func TestHearOutTwo(t *testing.T) {
	s, err := New(Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	busy := &client{s: s, conn: newOutbox(hungUp{}), over: make(chan struct{})}
	a := &client{s: s, conn: newOutbox(hungUp{}), over: make(chan struct{})}
	b := &client{s: s, conn: newOutbox(hungUp{}), over: make(chan struct{})}
	s.clients[busy], s.clients[a], s.clients[b] = struct{}{}, struct{}{}, struct{}{}
	done := make(chan struct{})
	for _, c := range []*client{a, b} {
		go func() { s.hearOut(c); close(c.over); done <- struct{}{} }()
		for !c.isGreeting() {
			runtime.Gosched()
		}
	}
	select {
	case <-done:
		t.Error("it did not wait for one that may have asked for something")
	case <-time.After(20 * time.Millisecond):
	}
	close(busy.over)
	for range 2 {
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Fatal("they wait for each other")
		}
	}
	s.clients = map[*client]struct{}{}
}

type hungUp struct{ wire.Conn }

func (hungUp) HungUp() bool { return true }

func (c *client) isGreeting() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.greeting
}

// A warden that ends since it has nothing to keep greets no gateway that comes
// meanwhile: what that asks for would be lost.
func TestLeave(t *testing.T) {
	s, err := New(Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	connect := func() wire.Conn {
		t.Helper()
		ours, theirs, err := wire.PacketPair()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(theirs) }()
		if err := ours.Send(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version}); err != nil && !errors.Is(err, unix.EPIPE) {
			t.Fatal(err)
		}
		return ours
	}
	conn := connect()
	if m, _, err := conn.Recv(); err != nil || m.Type != wire.Hello {
		t.Fatalf("%+v, %v, want to be greeted", m, err)
	}
	if s.leave(false) {
		t.Error("it leaves, and a gateway is connected")
	}
	conn.Close()
	for end := time.Now().Add(5 * time.Second); !s.leave(false); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not leave")
		}
		if s.leave(true) {
			t.Fatal("it leaves as if it had been asked to")
		}
	}
	conn = connect()
	defer conn.Close()
	if m, _, err := conn.Recv(); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("%+v, %v from a warden that has left, want the end of the connection", m, err)
	}
}
