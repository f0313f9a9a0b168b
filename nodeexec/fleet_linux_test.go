package nodeexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/nodeexec"
)

// fleet is nodes and gateways around one message server.
type fleet struct {
	t      testing.TB
	broker *broker.Server
	key    nkeys.KeyPair // of the gateways
	log    *slog.Logger

	mu     sync.Mutex
	keys   map[string]string // ids of nodes, by public key
	paired []nodeexec.Paired
}

func newFleet(t testing.TB) *fleet {
	f := &fleet{t: t, keys: map[string]string{}, log: slog.New(slog.DiscardHandler)}
	f.key, _ = natstest.NewKey(t)
	var err error
	f.broker, err = broker.Start(broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: f.log, Authorize: func(k string) (string, bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		id, ok := f.keys[k]
		return id, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.broker.Close)
	return f
}

// pair approves a node, and returns its connection.
func (f *fleet) pair(p nodeexec.Paired) *nats.Conn {
	f.t.Helper()
	key, public := natstest.NewKey(f.t)
	f.mu.Lock()
	f.keys[public] = p.ID
	f.paired = append(slices.Clone(f.paired), p)
	f.mu.Unlock()
	pinned, err := broker.Pinned(f.broker.Fingerprint(), key)
	if err != nil {
		f.t.Fatal(err)
	}
	conn, err := nats.Connect("tls://"+f.broker.Addr().String(), append(fabric.ConnectOptions(f.log), pinned...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(conn.Close)
	return conn
}

// serve is a node that runs commands. The connection, when it is closed, has the
// node be gone without a word.
func (f *fleet) serve(p nodeexec.Paired, x corral.Executor, running int) *nats.Conn {
	f.t.Helper()
	conn := f.pair(p)
	public, err := f.key.PublicKey()
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	link, done := linktest.Over(f.t, conn), make(chan struct{})
	go func() {
		defer close(done)
		_ = fabric.Serve(ctx, link, fabric.NodeConfig{ID: p.ID, Executor: x, GatewayKeys: []string{public}, Running: func() int { return running }, Log: f.log})
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	return conn
}

// gateway begins the life of one.
func (f *fleet) gateway() (*nodeexec.Fabric, *nats.Conn) {
	f.t.Helper()
	conn, err := f.broker.Connect(fabric.ConnectOptions(f.log)...)
	if err != nil {
		f.t.Fatal(err)
	}
	g, err := nodeexec.New(nodeexec.Config{Conn: linktest.Over(f.t, conn), Key: f.key, Log: f.log, Paired: func() []nodeexec.Paired {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.paired
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := g.Close(); err != nil {
			f.t.Error(err)
		}
		conn.Close()
	})
	return g, conn
}

// await waits until a gateway knows of as many nodes that they are online.
func (f *fleet) await(g *nodeexec.Fabric, nodes int) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		online := 0
		for _, s := range g.List(context.Background()) {
			if s.Online {
				online++
			}
		}
		if online == nodes {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("%d nodes are online, not %d", online, nodes)
		}
	}
}

func fake(t testing.TB, fault func(fakeexec.Op, string) error) *fakeexec.Executor {
	x := &fakeexec.Executor{Fault: fault, Programs: map[string]fakeexec.Program{"sleep": fakeexec.Sleep, "consume": consume}}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func gpu(id string) nodeexec.Paired {
	return nodeexec.Paired{ID: id, Name: "name-" + id, Labels: map[string]string{"pool": "gpu"}}
}

func poolRouter(g *nodeexec.Fabric) *corral.Router {
	return corral.NewRouter(corral.RouterOptions{Host: corral.HostNode, Node: "pool:gpu", Nodes: g})
}

// hello is a node that is not served here, as far as gateways see it that ask
// whether it is there: it says so, and once more whenever it is asked. A node that
// does not listen is gone, whatever it said before.
func hello(t testing.TB, conn *nats.Conn, id string, h fabric.Hello) {
	t.Helper()
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	say := func() error { return conn.Publish(fabric.HelloSubject(id), b) }
	// That it cannot be sent is that the test is over.
	_, err = conn.Subscribe(fabric.WhoSubject(id), func(*nats.Msg) { _ = say() })
	if err := errors.Join(err, conn.Flush(), say(), conn.Flush()); err != nil {
		t.Fatal(err)
	}
}
