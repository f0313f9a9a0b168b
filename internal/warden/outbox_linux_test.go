package warden

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// While nobody reads, a command's end and its deadline are still seen to; what
// was to be said then is not what the next gateway hears first.
func TestOutputStandsStill(t *testing.T) {
	ours, served := overPipe(t, Options{Log: t.Logf})
	f := wire.NewFrames(ours, ours, ours)
	send := func(m *wire.Message) {
		t.Helper()
		if err := f.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	// until reads to the answer to a request.
	until := func(req uint64) (seen []*wire.Message) {
		t.Helper()
		for {
			m, _, err := f.Recv()
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, m)
			if m.Req == req && m.Type != wire.Hello && m.Type != wire.Item {
				return seen
			}
		}
	}
	start := func(req uint64, id, shell string, timeout time.Duration) {
		send(&wire.Message{Type: wire.Start, Req: req, ID: id, Args: []string{"sh", "-c", shell}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Epoch: "a", Timeout: uint64(timeout)})
		until(req)
	}
	send(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version, Epoch: "a", StartedAt: 100})
	until(1)
	start(2, "loud", "yes; sleep 100", 0)
	start(3, "ends", "sleep 0.1; exit 5", 0)
	began := time.Now()
	start(4, "late", "sleep 100", 300*time.Millisecond)
	// Nobody reads from here on.
	time.Sleep(1500 * time.Millisecond)
	back := time.Now()
	send(&wire.Message{Type: wire.Hello, Req: 5, Version: wire.Version, Epoch: "b", StartedAt: 200})
	ended := map[string]*wire.Message{}
	for _, m := range until(5) {
		if m.Type == wire.Item && m.Req == 5 {
			ended[m.ID] = m
		}
	}
	if m := ended["ends"]; m == nil || m.ExitCode != 5 || m.EndedAt == 0 || time.Unix(0, int64(m.EndedAt)).After(back) {
		t.Errorf("the end while nobody read: %+v", m)
	}
	if m := ended["late"]; m == nil || m.Reason != wire.ReasonTimeout || time.Unix(0, int64(m.EndedAt)).After(began.Add(time.Second)) {
		t.Errorf("the deadline while nobody read: %+v", m)
	}
	if m := ended["loud"]; m == nil || m.EndedAt != 0 {
		t.Errorf("what runs on: %+v", m)
	}
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
