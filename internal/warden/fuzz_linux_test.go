package warden

import (
	"bytes"
	"io"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// scripted is a connection on which a gateway says what the fuzzer wants. It
// starts nothing but true.
type scripted struct {
	*wire.Frames
	files bool
}

func (s scripted) PassesFiles() bool { return s.files }

func (s scripted) Recv() (*wire.Message, []int, error) {
	m, fds, err := s.Frames.Recv()
	if err == nil && m.Type == wire.Start {
		m.Args, m.Dir, m.Env = []string{"true"}, "/", []string{"PATH=/bin:/usr/bin"}
	}
	if err == nil && m.Type != wire.Hello {
		m.Epoch = "e" // as the first Hello of the seeds
	}
	if err == nil && m.Type == wire.Dial && m.Port > 1 && m.Port < 1<<16 {
		m.Port = 1 // and nothing of this machine
	}
	if err == nil && m.Type == wire.Signal && m.ID != "a" {
		m.ID = "a" // the only process there may be
	}
	return m, fds, err
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// Whatever a gateway says, the warden neither panics nor hangs.
func FuzzServe(f *testing.F) {
	var b bytes.Buffer
	w := wire.NewFrames(nil, &b, nopCloser{})
	for _, m := range []*wire.Message{
		{Type: wire.Hello, Req: 1, Version: wire.Version, Epoch: "e"},
		{Type: wire.Start, Req: 2, ID: "a", Args: []string{"true"}, Flags: wire.FlagStdin},
		{Type: wire.Input, ID: "a", Data: []byte("hello")},
		{Type: wire.CloseStdin, Req: 3, ID: "a", Offset: 5},
		{Type: wire.OutputAck, ID: "a", Offset: 1 << 62},
		{Type: wire.Attach, Req: 4, ID: "a", Offset: 7},
		{Type: wire.Resize, Req: 5, ID: "a", Rows: 1 << 40},
		{Type: wire.Signal, Req: 6, ID: "a", Signal: 9},
		{Type: wire.Keep, Req: 7, ID: "a"},
		{Type: wire.Forget, Req: 8, ID: "a"},
		{Type: wire.Shutdown, Req: 9},
		{Type: wire.Dial, Req: 10, Port: 1, Timeout: 1e6},
		{Type: wire.Dial, Req: 11, Port: 1 << 40},
		{Type: wire.PortAck, Stream: 10, Limit: 1 << 63},
		{Type: wire.PortData, Stream: 10, Data: []byte("hello")},
		{Type: wire.PortData, Stream: 10, Offset: 1 << 62, Flags: wire.FlagEOF},
		{Type: wire.PortClose, Stream: 10},
	} {
		if err := w.Send(m); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Bytes(), false)
	f.Add(b.Bytes(), true)
	f.Fuzz(func(t *testing.T, in []byte, files bool) {
		s, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Serve(scripted{wire.NewFrames(bytes.NewReader(in), io.Discard, nopCloser{}), files})
		s.Close()
	})
}
