package warden

import (
	"math"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// A warden ends when it was told to, and at no time that was said before.
func TestEndAfter(t *testing.T) {
	ended := make(chan time.Time, 9)
	y, served := overPipe(t, Options{End: func() { ended <- time.Now() }})
	c := wire.NewFrames(y, y, y)
	req := uint64(0)
	ask := func(m *wire.Message) *wire.Message {
		t.Helper()
		req++
		m.Req, m.Epoch = req, "e"
		if err := c.Send(m); err != nil {
			t.Fatal(err)
		}
		for {
			got, _, err := c.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if got.Req == req && got.Type != wire.Hello {
				return got
			}
		}
	}
	ask(&wire.Message{Type: wire.Hello, Version: wire.Version, StartedAt: 1})
	after := func(d time.Duration) {
		t.Helper()
		if got := ask(&wire.Message{Type: wire.EndAfter, Timeout: uint64(d)}); got.Type != wire.OK {
			t.Fatalf("%v: %+v", d, got)
		}
	}
	after(50 * time.Millisecond)
	after(0)
	time.Sleep(100 * time.Millisecond)
	after(time.Hour)
	begun := time.Now()
	after(30 * time.Millisecond)
	select {
	case at := <-ended:
		if took := at.Sub(begun); took < 30*time.Millisecond {
			t.Errorf("it ended after %v", took)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if got := ask(&wire.Message{Type: wire.EndAfter, Timeout: math.MaxInt64 + 1}); got.Type != wire.Error || got.Code != wire.CodeInvalid {
		t.Errorf("%+v", got)
	}
	if len(ended) > 0 {
		t.Error("it ended twice")
	}
	y.Close()
	<-served

	host, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if f := host.endAfter(1); f == nil || f.code != wire.CodeUnsupported {
		t.Errorf("a warden of a host: %+v", f)
	}
}
