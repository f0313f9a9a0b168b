package warden

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// What output costs both ends of a byte stream, without the engine between them.
func BenchmarkOutputInFrames(b *testing.B) {
	const size = 64 << 20
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	served := make(chan error, 1)
	go func() { served <- s.Serve(wire.NewFrames(inR, outW, inR)) }()
	gw := wire.NewFrames(outR, inW, inW)
	send := func(m *wire.Message) {
		m.Epoch = "a"
		if err := gw.Send(m); err != nil {
			b.Fatal(err)
		}
	}
	send(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version, StartedAt: 1})
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.SetBytes(size)
	before := used()
	for b.Loop() {
		send(&wire.Message{Type: wire.Start, Req: 2, ID: "x", Args: []string{"dd", "if=/dev/zero", "bs=64k", "count=1024", "status=none"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}})
		end, acked, exited := uint64(0), uint64(0), false
		for eof := false; !eof || !exited; {
			m, _, err := gw.Recv()
			if err != nil {
				b.Fatal(err)
			}
			switch m.Type {
			case wire.Error:
				b.Fatal(m.Text)
			case wire.Exited:
				exited = true
			case wire.Output:
				eof = m.Flags&wire.FlagEOF != 0
				if end = m.Offset + uint64(len(m.Data)); end-acked >= wire.Window/2 || eof {
					acked = end
					send(&wire.Message{Type: wire.OutputAck, ID: "x", Offset: end})
				}
			}
		}
		if end != size {
			b.Fatalf("%d bytes", end)
		}
		send(&wire.Message{Type: wire.Forget, Args: []string{"x"}})
	}
	b.ReportMetric(float64(used()-before)/1e6/float64(b.N)/64, "cpu-ms/MiB")
	inW.Close()
	if err := <-served; err != nil {
		b.Error(err)
	}
	for _, f := range []*os.File{inR, outR, outW} {
		f.Close()
	}
}
