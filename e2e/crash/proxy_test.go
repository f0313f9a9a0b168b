//go:build e2e

package crash_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/client"

	"github.com/corral-exec/corral/internal/test/testdir"
)

// A proxy is between us and the engine's socket, and can be cut.
type proxy struct {
	listener net.Listener
	engine   string // path of the socket
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[*net.UnixConn]bool
	down  bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	engine, local := strings.CutPrefix(c.DaemonHost(), "unix://")
	if !local {
		t.Fatalf("the engine is at %s, and has to be on this machine", c.DaemonHost())
	}
	p := &proxy{engine: engine, conns: map[*net.UnixConn]bool{}}
	if p.listener, err = net.Listen("unix", filepath.Join(testdir.New(t), "proxy.sock")); err != nil {
		t.Fatal(err)
	}
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(func() {
		p.listener.Close()
		p.cut(true)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return "unix://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	defer p.wg.Done()
	for {
		ours, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			defer ours.Close()
			theirs, err := net.Dial("unix", p.engine)
			if err != nil {
				return
			}
			defer theirs.Close()
			p.join(ours.(*net.UnixConn), theirs.(*net.UnixConn))
		}()
	}
}

// join passes on what comes, each way until its end.
func (p *proxy) join(a, b *net.UnixConn) {
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.conns[a], p.conns[b] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]*net.UnixConn{{a, b}, {b, a}} {
		both.Go(func() {
			if _, err := io.Copy(way[0], way[1]); err != nil {
				a.Close() // as an engine or a network that fails does
				b.Close()
				return
			}
			_ = way[0].CloseWrite() // closed: that is what was wanted
		})
	}
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, a)
	delete(p.conns, b)
}

// cut breaks every connection, without a word, and returns how many there were.
// With down, new ones are refused until the next cut.
func (p *proxy) cut(down bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for c := range p.conns {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			panic(err)
		}
	}
	return len(p.conns) / 2
}
