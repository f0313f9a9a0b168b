package warden

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// A time-out that would be negative here is refused: it would be none.
func TestStartTimeoutOutOfRange(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, f := s.claim(&wire.Message{ID: "x", Args: []string{"true"}, Dir: "/", Timeout: 1 << 63})
	if p != nil || f == nil || f.code != wire.CodeInvalid {
		t.Errorf("%v, %+v", p, f)
	}
}

// What an earlier connection sent, and the engine delivers late, is neither
// done nor answered.
func TestStaleMessages(t *testing.T) {
	start := func(id, epoch string) *wire.Message {
		return &wire.Message{Type: wire.Start, Req: 9, ID: id, Args: []string{"true"}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin"}, Epoch: epoch}
	}
	var in, out bytes.Buffer
	w := wire.NewFrames(nil, &in, nopCloser{})
	for _, m := range []*wire.Message{
		{Type: wire.Hello, Req: 1, Version: wire.Version, Epoch: "old", StartedAt: 100},
		{Type: wire.Hello, Req: 2, Version: wire.Version, Epoch: "new", StartedAt: 200},
		start("late", "old"),
		{Type: wire.Hello, Req: 3, Version: wire.Version, Epoch: "older", StartedAt: 50},
		start("forged", ""),
		start("now", "new"),
	} {
		if err := w.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(wire.NewFrames(&in, &out, nopCloser{})); err != nil {
		t.Fatal(err)
	}
	s.Close()
	var started []string
	for r := wire.NewFrames(&out, io.Discard, nopCloser{}); ; {
		m, _, err := r.Recv()
		if err != nil {
			break
		}
		switch {
		case m.Type == wire.Started:
			started = append(started, m.ID)
		case m.Req == 3:
			t.Errorf("an old greeting was answered: %+v", m)
		}
	}
	if !slices.Equal(started, []string{"now"}) {
		t.Errorf("started %v", started)
	}
}
