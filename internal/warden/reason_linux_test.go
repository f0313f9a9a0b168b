package warden

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// Why a program could not be executed is told in no more than its pipe holds,
// which nobody reads yet.
func TestLongReason(t *testing.T) {
	for name, flags := range map[string]uint64{"pipe": 0, "terminal": wire.FlagTTY} {
		t.Run(name, func(t *testing.T) {
			var in, out bytes.Buffer
			w := wire.NewFrames(nil, &in, nopCloser{})
			for _, m := range []*wire.Message{
				{Type: wire.Hello, Req: 1, Version: wire.Version, Epoch: "e"},
				{Type: wire.Start, Req: 2, ID: "x", Args: []string{strings.Repeat("/long", 100_000)}, Dir: "/", Epoch: "e", Flags: flags},
			} {
				if err := w.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			s, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(wire.NewFrames(&in, &out, nopCloser{})) }()
			select {
			case err := <-served:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the warden waits for somebody to read why")
			}
			s.Close()
			for r := wire.NewFrames(&out, io.Discard, nopCloser{}); ; {
				m, _, err := r.Recv()
				if err != nil {
					t.Fatal("no end was told")
				}
				if m.Type == wire.Exited {
					if m.ExitCode != 127 && m.ExitCode != 126 {
						t.Errorf("exit code %d", m.ExitCode)
					}
					return
				}
			}
		})
	}
}
