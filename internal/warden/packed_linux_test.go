package warden

import (
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// Output travels packed to a gateway that knows that, and not to an older one that takes
// over its stream.
func TestPackedOutput(t *testing.T) {
	y, served := overPipe(t, Options{})
	var read atomic.Int64
	gw := wire.NewFrames(counted{y, &read}, y, y)
	const size = 400_000 // less than a window
	for i, tt := range []struct {
		epoch, id string
		features  []string
		packed    bool
	}{
		{"1", "a", []string{wire.FeaturePacked}, true},
		{"2", "b", nil, false},
		{"3", "c", []string{wire.FeatureTerminalFirst, wire.FeaturePacked}, true},
	} {
		before, knows := read.Load(), false
		send := func(m *wire.Message) {
			t.Helper()
			if m.Epoch = tt.epoch; gw.Send(m) != nil {
				t.Fatal("the warden does not listen")
			}
		}
		send(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version, Features: tt.features, StartedAt: uint64(i + 1)})
		send(&wire.Message{Type: wire.Start, Req: 2, ID: tt.id, Args: []string{"head", "-c", "400000", "/dev/zero"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}})
		for got := 0; ; {
			m, _, err := gw.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.Type == wire.Error {
				t.Fatal(m.Text)
			}
			if m.Type == wire.Hello && m.Epoch == tt.epoch {
				knows = slices.Contains(m.Features, wire.FeaturePacked)
			}
			if m.Type != wire.Output || m.ID != tt.id {
				continue
			}
			if got += len(m.Data); m.Flags&wire.FlagEOF != 0 {
				if got != size {
					t.Fatalf("%d bytes of output", got)
				}
				break
			}
		}
		if n := read.Load() - before; !knows || (n < size/10) != tt.packed {
			t.Errorf("with %v, %d bytes came over the wire; the warden says that it packs: %v", tt.features, n, knows)
		}
	}
	y.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
