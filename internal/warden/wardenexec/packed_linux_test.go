package wardenexec

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
)

// Input travels packed to a warden that knows that.
func TestPackedInput(t *testing.T) {
	s, err := warden.New(warden.Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var sent atomic.Int64
	e, err := New(Options{
		Dir: t.TempDir(),
		Connect: func(context.Context, bool) (wire.Conn, error) {
			a, b := net.Pipe()
			wg.Go(func() { _ = s.Serve(wire.NewFrames(b, b, b)) }) // until it is cut
			return wire.NewFrames(a, counted{a, &sent}, a), nil
		},
		Prepare: func(context.Context, corral.Command) (pathenv.Plan, error) {
			return pathenv.Plan{Args: []string{"/usr/bin/wc", "-c"}, Dir: "/"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		s.Close()
		wg.Wait()
	})
	p, err := e.Start(t.Context(), corral.Command{Args: []string{"wc", "-c"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	const size = 400_000
	if _, err := p.Write(t.Context(), make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	c, err := p.Log().Read(t.Context(), 0, make([]byte, 100))
	if err != nil || string(c.Data) != "400000\n" {
		t.Errorf("it read %q bytes, %v", c.Data, err)
	}
	if n := sent.Load(); n > size/10 {
		t.Errorf("%d bytes of input were %d on the wire", size, n)
	}
}

type counted struct {
	w io.Writer
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.w.Write(p)
}
