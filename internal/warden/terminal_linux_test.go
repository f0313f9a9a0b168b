package warden

import (
	"io"
	"testing"

	"github.com/corral-exec/corral/internal/wire"
)

// A command that closes its terminal and opens it again is still heard.
func TestTerminalReopened(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(wire.NewFrames(inR, outW, nopCloser{})) }()
	gw := wire.NewFrames(outR, inW, nopCloser{})
	go func() {
		for _, m := range []*wire.Message{
			{Type: wire.Hello, Req: 1, Version: wire.Version, Epoch: "e"},
			{Type: wire.Start, Req: 2, ID: "x", Dir: "/", Epoch: "e", Flags: wire.FlagTTY, Rows: 24, Cols: 80,
				Env:  []string{"PATH=/usr/bin:/bin"},
				Args: []string{"/bin/sh", "-c", "exec </dev/null >/dev/null 2>&1; sleep 0.2; exec >/dev/tty; echo again"}},
		} {
			if err := gw.Send(m); err != nil {
				t.Error(err)
			}
		}
	}()
	said, ended, exited := "", false, false
	for !ended || !exited {
		m, _, err := gw.Recv()
		if err != nil {
			t.Fatal(err)
		}
		switch m.Type {
		case wire.Output:
			said += string(m.Data)
			ended = m.Flags&wire.FlagEOF != 0
		case wire.Exited:
			exited = true
		}
	}
	if said != "again\r\n" {
		t.Errorf("it said %q", said)
	}
	inW.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.Close()
}
