package warden

import (
	"errors"
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

// A warden that is about to end for idleness does not leave a command behind that
// a gateway started meanwhile.
func TestServeUntil(t *testing.T) {
	s, err := New(Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	turns := 0
	err = serveUntil(s, t.TempDir(), func(s *Supervisor, end func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if turns++; turns == 1 {
			s.procs["x"] = &proc{id: "x"} // it came too late to be seen
		} else {
			delete(s.procs, "x")
		}
		end()
	})
	if err != nil || turns != 2 {
		t.Errorf("%d turns, %v", turns, err)
	}
}
