//go:build e2e

package console_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A way is a network between a browser and a gateway.
type way struct {
	url string

	mu    sync.Mutex
	conns []*link
}

// A link is one connection through it.
type link struct {
	dead     atomic.Bool // what is sent comes to nobody
	from, to net.Conn
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{url: "http://" + l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(to, "http://"))
			if err != nil {
				_ = from.Close() // the gateway is gone
				continue
			}
			c := &link{from: from, to: to}
			w.mu.Lock()
			w.conns = append(w.conns, c)
			w.mu.Unlock()
			all.Go(func() { c.copy(from, to) })
			all.Go(func() { c.copy(to, from) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.conns {
			_, _ = c.from.Close(), c.to.Close() // they may have ended
		}
		w.mu.Unlock()
		all.Wait()
	})
	return w
}

func (c *link) copy(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !c.dead.Load() {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = io.ErrClosedPipe
			}
		}
		if err != nil {
			if !c.dead.Load() {
				_ = to.Close() // the other side may have done so
			}
			return
		}
	}
}

// freeze makes that on the connections of now nothing comes any more, without an end.
// New ones are as always.
func (w *way) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.dead.Store(true)
	}
}
