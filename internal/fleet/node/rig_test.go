package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/errtest"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/nodeexec"
)

// patience is for how long a test waits for what is to happen soon.
const patience = 20 * time.Second

func testLog() *slog.Logger {
	if os.Getenv("CORRAL_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// like is what a message server is like.
type like struct {
	web     bool // it is reached by WebSocket alone
	uncut   bool // connections stay when the permissions of their key change
	lenient bool // a node that was revoked may do what it could
}

// house is a gateway to which machines come: all of it that has to do with
// nodes. Its directory and address outlive it.
type house struct {
	tb     testing.TB
	dir    string
	listen string
	key    nkeys.KeyPair
	like
	line join.Line

	registry *pairing.Registry
	server   *broker.Server
	conn     *nats.Conn
	desk     *join.Desk
	nodes    corral.Nodes
	asked    chan pairing.Request
	close    func()
}

func newHouse(tb testing.TB) *house { return newHouseLike(tb, like{}) }

func newHouseLike(tb testing.TB, l like) *house {
	key, _ := natstest.NewKey(tb)
	h := &house{tb: tb, dir: tb.TempDir(), listen: "127.0.0.1:0", like: l, key: key, asked: make(chan pairing.Request, 100)}
	h.open()
	return h
}

// open begins a life of the gateway.
func (h *house) open() {
	h.tb.Helper()
	public, err := h.key.PublicKey()
	must(h.tb, err)
	stale := make(chan string, 100) // keys of which the permissions have changed
	desk := make(chan *join.Desk, 1)
	h.registry, err = pairing.Open(pairing.Options{Dir: h.dir, GatewayKey: public, Log: testLog(), Changed: func(c pairing.Change) {
		d := <-desk
		desk <- d
		d.Changed(c)
		switch c.Event {
		case pairing.EventAsked:
			h.asked <- c.Request
		case pairing.EventPaired, pairing.EventRevoked:
			stale <- c.Key
		}
	}})
	must(h.tb, err)
	cfg := broker.Config{Dir: h.dir, Authorize: h.authorize(h.registry), Log: testLog()}
	if h.web {
		cfg.WebSocket = h.listen
	} else {
		cfg.Listen = h.listen
	}
	h.server, err = broker.Start(cfg)
	must(h.tb, err)
	if h.web {
		h.listen = h.server.WebSocketAddr().String()
	} else {
		h.listen = h.server.Addr().String()
	}
	h.line = join.Line{Hosts: []string{h.listen}, WebSocket: h.web, Key: public, Cert: h.server.Fingerprint()}
	h.conn, err = h.server.Connect(fabric.ConnectOptions(testLog())...)
	must(h.tb, err)
	link := linktest.Over(h.tb, h.conn)
	nodes, err := nodeexec.New(nodeexec.Config{Conn: link, Key: h.key, Paired: h.paired, Log: testLog()})
	must(h.tb, err)
	h.nodes = nodes
	h.desk, err = join.Open(join.Config{Conn: link, Key: h.key, Registry: h.registry, From: h.server.From, Log: testLog()})
	must(h.tb, err)
	desk <- h.desk
	var cutting sync.WaitGroup
	server := h.server
	cutting.Go(func() {
		for key := range stale {
			if !h.uncut {
				server.Disconnect(key)
			}
		}
	})
	h.close = sync.OnceFunc(func() {
		must(h.tb, errors.Join(h.desk.Close(), nodes.Close(), h.registry.Close()))
		close(stale)
		cutting.Wait()
		h.conn.Close()
		h.server.Close()
	})
	h.tb.Cleanup(h.close)
}

func (h *house) authorize(r *pairing.Registry) func(string) (string, bool) {
	return func(key string) (string, bool) {
		if h.lenient {
			return pairing.ID(key), true
		}
		return r.Authorize(key)
	}
}

func (h *house) paired() []nodeexec.Paired {
	var list []nodeexec.Paired
	for _, n := range h.registry.Nodes() {
		if n.RevokedAt.IsZero() || h.lenient {
			list = append(list, nodeexec.Paired{ID: n.ID, Name: n.Name})
		}
	}
	return list
}

// request is the next one of a machine.
func (h *house) request() pairing.Request {
	h.tb.Helper()
	select {
	case q := <-h.asked:
		return q
	case <-time.After(patience):
		h.tb.Fatal("nobody asks")
		panic("unreachable")
	}
}

func (h *house) approve(code, name string) pairing.Node {
	h.tb.Helper()
	n, err := h.registry.Approve(code, pairing.Approval{By: "test", Name: name})
	must(h.tb, err)
	return n
}

// node is the executor of a node, as soon as it is there.
func (h *house) node(name string) corral.Executor {
	h.tb.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		x, _, err := h.nodes.Select(context.Background(), name)
		if err == nil {
			return x
		}
		if time.Now().After(end) {
			h.tb.Fatal(err)
		}
	}
}

var must = errtest.None

// machine is one that is a node, or wants to be. Its directory outlives its
// lives.
type machine struct {
	tb  testing.TB
	dir string
	cfg Config // of its lives; State is made for each

	statuses chan Status
	ended    chan error
	stop     func() error // ends this life
}

func newMachine(tb testing.TB, dir string, x corral.Executor) *machine {
	return &machine{tb: tb, dir: dir, cfg: Config{Executor: x, Log: testLog(), Hello: pairing.Hello{Name: "Builder", OS: "linux", Version: "v1"}}}
}

// run begins a life with a line, which may be empty.
func (m *machine) run(line string) {
	m.tb.Helper()
	st, err := Open(m.dir, testLog())
	must(m.tb, err)
	must(m.tb, st.Use(line, false))
	ctx, cancel := context.WithCancel(context.Background())
	statuses, ended := make(chan Status, 1000), make(chan error, 1)
	m.statuses, m.ended = statuses, ended
	cfg := m.cfg
	cfg.State, cfg.Changed = st, func(s Status) { statuses <- s }
	go func() { ended <- errors.Join(Run(ctx, cfg), st.Close()) }()
	m.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	stop := m.stop
	m.tb.Cleanup(func() { _ = stop() }) // what it ends with is for the test to say
}

// await waits until the machine is as it should.
func (m *machine) await(what string, is func(Status) bool) Status {
	m.tb.Helper()
	for end := time.After(patience); ; {
		select {
		case s := <-m.statuses:
			if is(s) {
				return s
			}
		case err := <-m.ended:
			m.ended <- err
			m.tb.Fatalf("it ended, and is not %s: %v", what, err)
		case <-end:
			m.tb.Fatalf("it is not %s", what)
		}
	}
}

func (m *machine) serving() {
	m.tb.Helper()
	m.await("serving", func(s Status) bool { return s.Phase == Serving })
}

func (m *machine) code() string {
	m.tb.Helper()
	return m.await("waiting", func(s Status) bool { return s.Code != "" }).Code
}

// end is the error that it ends with by itself.
func (m *machine) end() error {
	m.tb.Helper()
	select {
	case err := <-m.ended:
		m.ended <- nil
		return err
	case <-time.After(patience):
		m.tb.Fatal("it does not end")
		panic("unreachable")
	}
}

// pair makes the machine a node of the house.
func (m *machine) pair(h *house, name string) {
	m.tb.Helper()
	m.run(h.line.String())
	h.request()
	h.approve(m.code(), name)
	m.serving()
}
