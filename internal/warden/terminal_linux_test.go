package warden

import (
	"bytes"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
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

// The last output of a terminal is taken whole, also where the kernel counts
// only a part of it, and a descendant holds the terminal open.
func TestSweepTerminal(t *testing.T) {
	master, slave, err := openTerminal(24, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(slave)
	if err := unix.SetNonblock(slave, true); err != nil {
		t.Fatal(err)
	}
	written := 0
	for quiet := 0; quiet < 3; { // the kernel moves it on by and by
		n, err := unix.Write(slave, bytes.Repeat([]byte("x"), 1000))
		switch err {
		case nil:
			written, quiet = written+n, 0
		case unix.EAGAIN:
			quiet++
			time.Sleep(20 * time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
	st := newStreams("x", -1, []int{master}, true, new(spare))
	defer st.release(false)
	rc, err := st.outs[0].SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	st.sweep(rc, 1)
	if st.end != int64(written) || written <= 4096 {
		t.Errorf("%d bytes were swept, want %d, more than 4096", st.end, written)
	}
}
