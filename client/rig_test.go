package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// A rig is a gateway that can go away and come back, over commands that go on
// meanwhile, and a line to it that can be cut.
type rig struct {
	t        testing.TB
	dir      string
	exec     *fakeexec.Executor
	sessions *session.Manager
	stop     func()
	line     *line

	approvals gateway.Approvals
	rules     gateway.Rules
	nodes     gateway.Nodes
	sandboxes gateway.Sandboxes
	files     func(ctx context.Context, agent, name string) (files.FS, error)
	dialPort  func(ctx context.Context, agent, name string, port int) (net.Conn, error)
}

func newRig(t testing.TB) *rig {
	g := &rig{t: t, dir: testdir.New(t), exec: &fakeexec.Executor{Programs: map[string]fakeexec.Program{
		"cat": fakeexec.Cat, "sleep": fakeexec.Sleep, "echo": fakeexec.Print("out\n", "err\n", 3),
	}}}
	t.Cleanup(func() {
		g.away()
		if err := g.exec.Close(); err != nil {
			t.Error(err)
		}
	})
	g.back()
	return g
}

// limit is a context for what is sure to happen. If it does not in a minute, the
// test fails, and shows how things are then.
func (g *rig) limit() context.Context {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	g.t.Cleanup(func() {
		cancel()
		if g.t.Failed() {
			g.t.Logf("there were %d events; sessions: %+v", g.sessions.LastEvent(), g.sessions.Agent(session.DefaultAgent).List(context.Background()))
		}
	})
	return ctx
}

func (g *rig) socket() string { return filepath.Join(g.dir, "gateway.sock") }

// away stops the gateway, if there is one.
func (g *rig) away() {
	if g.stop != nil {
		g.stop()
		g.stop = nil
	}
}

// back begins the gateway's next life.
func (g *rig) back() {
	g.t.Helper()
	var err error
	g.sessions, err = session.Open(context.Background(), session.Config{
		Dir:      filepath.Join(g.dir, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return g.exec, nil },
	})
	if err != nil {
		g.t.Fatal(err)
	}
	server, err := gateway.New(gateway.Config{Sessions: g.sessions, Approvals: g.approvals, Rules: g.rules, Nodes: g.nodes, Sandboxes: g.sandboxes, Files: g.files, DialPort: g.dialPort})
	if err != nil {
		g.t.Fatal(err)
	}
	l, err := listen.Unix(g.socket())
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx, l) }()
	g.stop = func() {
		cancel()
		if err := errors.Join(<-stopped, g.sessions.Close()); err != nil {
			g.t.Error(err)
		}
	}
}

func (g *rig) client(change func(*client.Options)) *client.Client {
	g.t.Helper()
	o := client.Options{Socket: g.socket()}
	if change != nil {
		change(&o)
	}
	c, err := client.New(o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return c
}

// throughLine is a client whose connections can be cut.
func (g *rig) throughLine() *client.Client {
	g.t.Helper()
	path := filepath.Join(g.dir, "line.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		g.t.Fatal(err)
	}
	g.line = &line{listener: l, to: g.socket(), conns: map[net.Conn]bool{}}
	g.line.wg.Go(g.line.run)
	g.t.Cleanup(func() {
		l.Close()
		g.line.cut()
		g.line.wg.Wait()
	})
	return g.client(func(o *client.Options) { o.Socket = path })
}

// A line passes bytes on.
type line struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	mute  bool // what the gateway says is swallowed
}

func (l *line) run() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		d, err := net.Dial("unix", l.to)
		if err != nil {
			c.Close()
			continue
		}
		l.mu.Lock()
		l.conns[c], l.conns[d] = true, true
		l.mu.Unlock()
		l.wg.Go(func() { l.pass(d, c, false) })
		l.wg.Go(func() { l.pass(c, d, true) })
	}
}

func (l *line) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		mute := l.mute && answers
		l.mu.Unlock()
		if !mute && n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// swallow has no answer come through until the line is cut.
func (l *line) swallow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = true
}

// cut closes every connection; new ones are passed on again.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = false
	for c := range l.conns {
		c.Close()
		delete(l.conns, c)
	}
}

func start(t testing.TB, c *client.Client, cmd corral.Command) *client.Process {
	t.Helper()
	p, err := c.Begin(t.Context(), cmd, true)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t testing.TB, p corral.Process, text string) {
	t.Helper()
	if n, err := p.Write(t.Context(), []byte(text)); err != nil || n != len(text) {
		t.Fatalf("Write: %d, %v", n, err)
	}
}

// read reads n bytes of the log.
func read(t testing.TB, p corral.Process, off int64, n int) string {
	t.Helper()
	text := ""
	for len(text) < n {
		c, err := p.Log().Read(t.Context(), off+int64(len(text)), make([]byte, n-len(text)))
		if err != nil {
			t.Fatalf("Read(%d): %v", off, err)
		}
		text += string(c.Data)
	}
	return text
}

// requests is how many of a kind the gateway has answered in this life.
func (g *rig) requests(route string) int {
	g.t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", g.socket())
	}}}
	resp, err := c.Get("http://localhost/metrics")
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(body), `corral_http_requests_total{route="`+route+`",status="200"} `)
	n, err := strconv.Atoi(strings.SplitN(rest, "\n", 2)[0])
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}
