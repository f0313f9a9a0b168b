package warden

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// beingMade is how many processes are being made.
func beingMade(s *Supervisor) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.making)
}

// spreading is a supervisor that may use more of this program's processors, and the
// ends of a connection to it.
func spreading(t *testing.T) (s *Supervisor, gw, theirs *wire.Packets) {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	s, gw, theirs = unservedWith(t, Options{Log: t.Logf, Processors: before})
	t.Cleanup(func() {
		gw.Close()
		s.Close()
		if now := runtime.GOMAXPROCS(0); now != before {
			t.Errorf("%d processors, %d before", now, before)
			runtime.GOMAXPROCS(before)
		}
	})
	return s, gw, theirs
}

func say(t *testing.T, gw *wire.Packets, list ...*wire.Message) {
	t.Helper()
	for _, m := range list {
		var fds []int
		if m.Type == wire.Start {
			fds = relay(t)
		}
		if err := gw.Send(m, fds...); err != nil {
			t.Fatal(err)
		}
	}
}

func startSleep(req uint64, id string) *wire.Message {
	return &wire.Message{Type: wire.Start, Req: req, ID: id, Dir: "/", Flags: wire.FlagTTY, Rows: 1, Cols: 1, Args: []string{"/bin/sleep", "20"}}
}

// heard is the next messages, by the requests that they have to answer.
func heard(t *testing.T, gw *wire.Packets, reqs ...uint64) map[uint64]*wire.Message {
	t.Helper()
	got := map[uint64]*wire.Message{}
	for range reqs {
		m, fds, err := gw.Recv()
		if err != nil {
			t.Fatal(err)
		}
		closeFDs(fds)
		got[m.Req] = m
	}
	for _, req := range reqs {
		if got[req] == nil {
			t.Fatalf("request %d was not answered: %v", req, got)
		}
	}
	return got
}

// Starts that arrive together are made beside each other, and what follows them is
// answered meanwhile, unless it is about one of them.
func TestStartsBeside(t *testing.T) {
	s, gw, theirs := spreading(t)
	s.forking.Lock() // no start gets further than this
	say(t, gw, startSleep(1, "a"), startSleep(2, "b"),
		&wire.Message{Type: wire.Attach, Req: 3, ID: "other"},
		&wire.Message{Type: wire.Resize, Req: 4, ID: "b", Rows: 2, Cols: 2},
		&wire.Message{Type: wire.Attach, Req: 5, ID: "other"})
	go func() { _ = s.Serve(theirs) }() // it ends with Close
	if m := heard(t, gw, 3)[3]; m.Type != wire.Error || m.Code != wire.CodeNotFound {
		t.Errorf("what is not there: %+v", m)
	}
	if n := beingMade(s); n != 2 {
		t.Errorf("%d processes are being made, not 2", n)
	}
	if n := runtime.GOMAXPROCS(0); n != s.opts.Processors+moreProcessors {
		t.Errorf("%d processors, not %d", n, s.opts.Processors+moreProcessors)
	}
	time.Sleep(20 * time.Millisecond) // time to answer what must wait
	s.forking.Unlock()
	got := heard(t, gw, 1, 2, 4, 5)
	for _, req := range []uint64{1, 2} {
		if got[req].Type != wire.Started {
			t.Errorf("start %d: %+v", req, got[req])
		}
	}
	if got[4].Type != wire.OK {
		t.Errorf("what was said of a process that was being made: %+v", got[4])
	}
}

// Two starts of one ID, on two connections, are one.
func TestOneStartOfOneID(t *testing.T) {
	s, gw, theirs := spreading(t)
	gw2, theirs2, err := wire.PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer gw2.Close()
	s.forking.Lock()
	say(t, gw, startSleep(1, "a"))
	say(t, gw2, startSleep(1, "a"))
	go func() { _ = s.Serve(theirs) }()
	go func() { _ = s.Serve(theirs2) }()
	for beingMade(s) == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // time for the second to begin as well
	s.forking.Unlock()
	one, two := heard(t, gw, 1)[1], heard(t, gw2, 1)[1]
	if one.Type != wire.Started || two.Type != wire.Started || one.PID != two.PID {
		t.Errorf("%+v and %+v", one, two)
	}
}

// A connection is at its end when all that was asked on it is done: the next one hears
// of every process.
func TestStartsBesideAreHeardOut(t *testing.T) {
	s, gw, theirs := spreading(t)
	s.forking.Lock()
	const starts = beside + 3
	for i := range starts {
		say(t, gw, startSleep(1, fmt.Sprint("p", i)))
	}
	gw.Close()
	go func() { _ = s.Serve(theirs) }()
	for beingMade(s) == 0 {
		time.Sleep(time.Millisecond)
	}
	next, theirs2, err := wire.PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	go func() { _ = s.Serve(theirs2) }()
	say(t, next, &wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version})
	time.Sleep(20 * time.Millisecond) // time to answer too soon
	s.forking.Unlock()
	items := map[string]bool{}
	for {
		m, _, err := next.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == wire.Item {
			items[m.ID] = true
		}
		if m.Type == wire.OK {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(items) == 0 || len(items) != len(s.procs) || len(s.making) > 0 {
		t.Errorf("it heard of %v; %d processes are there, and %d are being made", items, len(s.procs), len(s.making))
	}
}

// After a while without starts beside each other there are as few processors as before.
func TestGather(t *testing.T) {
	s, _, _ := spreading(t)
	s.spread()
	s.spread()
	for end := time.Now().Add(20 * calm); runtime.GOMAXPROCS(0) != s.opts.Processors; time.Sleep(calm / 10) {
		if time.Now().After(end) {
			t.Fatalf("%d processors, not %d", runtime.GOMAXPROCS(0), s.opts.Processors)
		}
	}
	s.spread() // and Close ends this one
	if n := runtime.GOMAXPROCS(0); n != s.opts.Processors+moreProcessors {
		t.Errorf("%d processors", n)
	}
}
