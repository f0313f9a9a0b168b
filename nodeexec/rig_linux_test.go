package nodeexec_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/nodeexec"
)

const nodeID = "n1"

// rig is a message server on loopback, the gateway's own unless a test says
// otherwise, and what comes and goes around it: the gateway's side and one node.
type rig struct {
	tb      testing.TB
	broker  *broker.Server                           // nil if Corral did not start it
	connect func(...nats.Option) (*nats.Conn, error) // the gateway's
	cert    string                                   // of the server
	gateway nkeys.KeyPair
	key     nkeys.KeyPair // of the node
	log     *slog.Logger
	lines   logtest.Log   // warnings, and worse
	address string        // where the node dials
	skew    time.Duration // of the node's clock

	mu     sync.Mutex
	paired map[string]nodeexec.Paired // by key

	fabric *nodeexec.Fabric
	conn   *nats.Conn // the gateway's
	end    func()     // of the gateway's side
	stop   func()     // of the node

	nodeConn *nats.Conn
}

// newRig is one with the gateway's own message server, over TLS.
func newRig(t testing.TB) *rig {
	r := bareRig(t)
	var err error
	r.broker, err = broker.Start(broker.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Log: r.log,
		Authorize: func(k string) (string, bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			n, ok := r.paired[k]
			return n.ID, ok
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.broker.Close)
	r.address, r.cert, r.connect = "tls://"+r.broker.Addr().String(), r.broker.Fingerprint(), r.broker.Connect
	return r
}

// newWebSocketRig is one to which the node connects by WebSocket.
func newWebSocketRig(t testing.TB) *rig {
	r := newRig(t)
	r.address = "wss://" + r.broker.WebSocketAddr().String()
	return r
}

// newExternalRig is one with a nats-server that Corral did not start.
func newExternalRig(t testing.TB) *rig {
	r := bareRig(t)
	own, gateway := natstest.NewKey(t)
	config, err := broker.ServerConfig([]string{gateway}, nil, []broker.User{{Key: r.public(r.key), Node: nodeID, Name: "builder"}})
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, config)
	seed, err := own.Seed()
	if err != nil {
		t.Fatal(err)
	}
	x := broker.External{URL: s.URL, Creds: filepath.Join(t.TempDir(), "gateway.nk"), Cert: s.Cert}
	if err := os.WriteFile(x.Creds, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	r.address, r.cert, r.connect = s.URL, s.Cert, x.Connect
	return r
}

// bareRig is one without a message server.
func bareRig(t testing.TB) *rig {
	r := &rig{tb: t, paired: map[string]nodeexec.Paired{}}
	r.log = slog.New(slog.NewTextHandler(&r.lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if os.Getenv("CORRAL_TEST_LOG") != "" {
		r.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	r.gateway, _ = natstest.NewKey(t)
	r.key = r.pair(nodeID, "builder")
	return r
}

// pair makes a node, and returns its key.
func (r *rig) pair(id, name string) nkeys.KeyPair {
	r.tb.Helper()
	key, public := natstest.NewKey(r.tb)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paired[public] = nodeexec.Paired{ID: id, Name: name}
	return key
}

// open begins a life of the gateway's side.
func (r *rig) open() *nodeexec.Fabric {
	r.tb.Helper()
	conn, err := r.connect(fabric.ConnectOptions(r.log)...)
	if err != nil {
		r.tb.Fatal(err)
	}
	f, err := nodeexec.New(nodeexec.Config{
		Conn: linktest.Over(r.tb, conn), Key: r.gateway, Log: r.log,
		Paired: func() []nodeexec.Paired {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Collect(maps.Values(r.paired))
		},
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.fabric, r.conn = f, conn
	r.end = sync.OnceFunc(func() {
		if err := f.Close(); err != nil {
			r.tb.Error(err)
		}
		conn.Close()
	})
	r.tb.Cleanup(r.end)
	return f
}

// serve begins a life of the node's program.
func (r *rig) serve(x corral.Executor, more ...nats.Option) {
	r.tb.Helper()
	conn, err := broker.Dial(r.address, r.cert, r.key, append(fabric.ConnectOptions(r.log), more...)...)
	if err != nil {
		r.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.nodeConn = conn
	link, done := linktest.Over(r.tb, conn), make(chan error, 1)
	go func() {
		done <- fabric.Serve(ctx, link, fabric.NodeConfig{
			ID: nodeID, Executor: x, GatewayKeys: []string{r.public(r.gateway)}, Log: r.log, Now: func() time.Time { return time.Now().Add(r.skew) },
		})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.tb.Errorf("Serve: %v", err)
		}
		conn.Close()
	})
	r.tb.Cleanup(r.stop)
}

func (r *rig) public(key nkeys.KeyPair) string {
	r.tb.Helper()
	public, err := key.PublicKey()
	if err != nil {
		r.tb.Fatal(err)
	}
	return public
}

// node is the executor of the one node, as soon as it is there.
func (r *rig) node() corral.Executor {
	r.tb.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		x, _, err := r.fabric.Select(context.Background(), nodeID)
		if err == nil {
			return x
		}
		if time.Now().After(end) {
			r.tb.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// life is a node's executor with all that is under it.
type life struct {
	corral.Executor
	rig   *rig
	host  *hostexec.Executor
	cfg   hostexec.Config
	close func()

	policy string // the node's configuration; empty: it has no policy
}

func (l *life) Close() error { l.close(); return nil }

func (r *rig) host(cfg hostexec.Config) *hostexec.Executor {
	r.tb.Helper()
	h, err := hostexec.New(cfg)
	if err != nil {
		r.tb.Fatal(err)
	}
	return h
}

func openLife(t testing.TB, r *rig, cfg hostexec.Config, policy string) *life {
	r.open()
	// After the rig, so that it goes first: as soon as its executor is closed,
	// and not when the warden may have ended by itself and left orphans.
	cfg.StateDir = filepath.Join(testdir.New(t), "host")
	l := &life{rig: r, cfg: cfg, policy: policy}
	l.begin()
	return l
}

// begin begins a life of the node's program.
func (l *life) begin() {
	h := l.rig.host(l.cfg)
	l.host = h
	var x corral.Executor = h
	var behind *guarded
	if l.policy != "" {
		behind = newGuarded(l.rig.tb, h, filepath.Dir(l.cfg.StateDir), l.policy, l.rig.log)
		x = behind.Node
	}
	l.rig.serve(x)
	l.Executor = l.rig.node()
	stop, tb := l.rig.stop, l.rig.tb
	l.close = sync.OnceFunc(func() {
		stop()
		if behind != nil {
			behind.close()
		}
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
	})
	// The gateway's side goes first: it would wait for a node that is gone.
	tb.Cleanup(func() { l.rig.end(); l.close() })
}

func target(t *testing.T, name string, newRig func(testing.TB) *rig, policy string, reopen func(t testing.TB, l *life) *life) exectest.Target {
	dir, bin := testdir.New(t), testdir.New(t)
	cfg := hostexec.Config{WardenPath: wardenbintest.Build(t), Workspace: dir, Environ: exectest.HostEnviron(dir)}
	tg := exectest.HostTarget(t, dir, bin)
	tg.Name = name
	tg.Info.Host, tg.Info.Node = corral.HostNode, "builder"
	tg.New = func(t testing.TB) corral.Executor { return openLife(t, newRig(t), cfg, policy) }
	tg.Reopen = func(t testing.TB, old corral.Executor) corral.Executor { return reopen(t, old.(*life)) }
	return tg
}

// gatewayRestarts is a next life of the gateway's side.
func gatewayRestarts(_ testing.TB, l *life) *life {
	l.rig.end()
	l.rig.open()
	return &life{Executor: l.rig.node(), rig: l.rig, host: l.host, cfg: l.cfg, close: l.close}
}

// nodeRestarts is a next life of the node's program.
func nodeRestarts(_ testing.TB, l *life) *life {
	l.close()
	next := &life{rig: l.rig, cfg: l.cfg, policy: l.policy}
	next.begin()
	return next
}

// Whatever is true of processes is true of those on a node. Here the next life
// is one of the gateway.
func TestConformance(t *testing.T) {
	exectest.Run(t, target(t, "node, hostexec warden", newRig, "", gatewayRestarts))
}

// Here it is the node's program that dies and comes back, under a gateway that
// lives; and the node has a policy, which allows everything.
func TestConformanceNodeRestarts(t *testing.T) {
	exectest.Run(t, target(t, "node restarted, its policy, hostexec warden", newRig, allowsAll, nodeRestarts))
}

// Here the node connects by WebSocket.
func TestConformanceWebSocket(t *testing.T) {
	exectest.Run(t, target(t, "node by WebSocket, hostexec warden", newWebSocketRig, "", gatewayRestarts))
}

// Here Corral did not start the message server.
func TestConformanceExternal(t *testing.T) {
	exectest.Run(t, target(t, "node on Debian's nats-server, hostexec warden", newExternalRig, "", gatewayRestarts))
}
