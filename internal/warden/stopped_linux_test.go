package warden

import (
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// A gateway that has stopped reading, as one that is stopped does, delays nobody
// else's deadline, and nobody else's answers. What it should have heard
// waits for it.
func TestStoppedGateway(t *testing.T) {
	s, err := New(Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	connect := func() (*wire.Packets, chan error) {
		ours, theirs, err := wire.PacketPair()
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(theirs) }()
		ask(t, ours, &wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version})
		return ours, served
	}
	start := func(gw *wire.Packets, id, shell string, timeout time.Duration) {
		t.Helper()
		m, _ := ask(t, gw, &wire.Message{Type: wire.Start, Req: 2, ID: id, Dir: "/", Flags: wire.FlagMerge, Timeout: uint64(timeout),
			Args: []string{"/bin/sh", "-c", shell}, Env: []string{"PATH=/usr/bin:/bin"}}, relay(t)...)
		if m.Type != wire.Started {
			t.Fatalf("%s: %+v", id, m)
		}
	}
	stopped, stoppedServed := connect()
	other, otherServed := connect()

	start(stopped, "ends", "sleep 0.5", 0)
	// It asks, and hears no answer any more.
	const asked = 3000
	go func() {
		for i := range uint64(asked) {
			if stopped.Send(&wire.Message{Type: wire.Resize, Req: 10 + i, ID: "nobody's"}) != nil {
				return
			}
		}
	}()
	began := time.Now()
	start(other, "late", "sleep 100", 700*time.Millisecond)
	for {
		m, _, err := other.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == wire.Exited && m.ID == "late" {
			if m.Reason != wire.ReasonTimeout {
				t.Errorf("it ended so: %+v", m)
			}
			break
		}
	}
	// Being late is to wait for the stopped one, which takes ten seconds.
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("a time-out of 700 ms was enforced after %v", took)
	}
	answers, ended := 0, false
	for answers < asked || !ended {
		m, _, err := stopped.Recv()
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}
		switch {
		case m.Type == wire.Error && m.Req == uint64(10+answers):
			answers++
		case m.Type == wire.Exited && m.ID == "ends":
			ended = true
		default:
			t.Fatalf("after %d answers: %+v", answers, m)
		}
	}
	for gw, served := range map[*wire.Packets]chan error{stopped: stoppedServed, other: otherServed} {
		gw.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	s.Close()
}
