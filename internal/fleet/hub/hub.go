// Package hub is the nodes of a gateway. It combines the registry of nodes (package
// pairing), the message server that they connect to (package broker), the desk at which
// machines ask to be nodes (package join), and the commands on them (package nodeexec).
//
// A change of the registry takes effect at once. A waiting machine gets its answer. The
// connections of a key that was paired or revoked are cut, so that the next connection
// has the key's new permissions.
//
// # Files
//
// The directory has, each for its owner alone:
//
//	gateway.seed              the gateway's key, an nkey: nodes obey it, and no other
//	nodes.pem                 the certificate of the message server, and its key
//	nodes.jsonl, nodes.lock   the registry, see package pairing
//	gateway.name              what tells it apart from others that share its approvals
//
// Nodes obey only this key, so keep a copy of gateway.seed in a safe place.
//
// # An external message server
//
// With [External] the gateway has no server of its own. The external server's
// configuration decides which keys may connect and which subjects they may use;
// [ServerConfig] writes it. The gateway no longer speaks to a revoked node, but the
// node stays connected until it is removed from that configuration. The addresses of
// nodes are not known. The server may also keep the registry and the approvals, for
// several gateways with the same gateway.seed.
package hub

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/nodeexec"
)

// Config of a Hub. Dir is required, and Listen, WebSocket, or both; or External.
type Config struct {
	// Dir holds the files. It is created if needed.
	Dir string
	// Listen is the address for nodes, as "0.0.0.0:7422", and WebSocket the one for
	// nodes that connect by WebSocket. Port 0 means any port.
	Listen, WebSocket string
	// Advertise is the address that nodes connect to, as "gw.example.com:7422"; several
	// are separated by commas. Empty: where the message server listens, by the names
	// and addresses of this machine. If it listens in both ways, WebSockets have the
	// ports of WebSocket.
	Advertise string
	// External is an existing message server, in place of the gateway's own.
	External *External
	Log      *slog.Logger
}

// External is an external message server.
type External struct {
	broker.External
	// Shared keeps the registry and the approvals in the message server's JetStream,
	// for all gateways with this gateway's key.
	Shared bool
}

// A Hub is the nodes of a gateway. Its methods may be called at any time.
type Hub struct {
	cfg      Config
	log      *slog.Logger
	key      nkeys.KeyPair
	public   string
	registry *pairing.Registry
	server   *broker.Server // nil if it is external
	conn     *fabric.Link
	desk     atomic.Pointer[join.Desk] // nil until it is open
	nodes    *nodeexec.Fabric

	paired  atomic.Pointer[snapshot]
	changes atomic.Uint64

	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu    sync.Mutex
	stale []string      // keys whose connections have to be cut
	work  chan struct{} // signals that stale has keys
}

// Open opens the nodes of a gateway. Close ends it.
func Open(cfg Config) (_ *Hub, err error) {
	h := &Hub{cfg: cfg, log: cfg.Log, work: make(chan struct{}, 1), cancel: func() {}}
	h.log = cmp.Or(h.log, slog.New(slog.DiscardHandler))
	if own := cfg.Listen != "" || cfg.WebSocket != ""; own == (cfg.External != nil) {
		return nil, corral.Errorf(corral.ErrInvalid, "listen for nodes, by --nodes or nodes.listen, or name a server in nats.url",
			"nodes need one message server: the gateway's own, or an external one")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "give --state-dir a directory that can be written", "cannot make the directory for nodes: %w", err)
	}
	if h.key, err = ownKey(cfg.Dir); err != nil {
		return nil, err
	}
	if h.public, err = h.key.PublicKey(); err != nil {
		return nil, err
	}
	if err := h.connect(); err != nil {
		return nil, err
	}
	for _, l := range h.Lines() {
		if _, err := join.ParseLine(l.String()); err != nil {
			return nil, corral.Errorf(corral.ErrInvalid, "write it like gw.example.com:7422", "nodes cannot be told to connect to %s: %w", strings.Join(l.Hosts, ","), err)
		}
	}
	if h.nodes, err = nodeexec.New(nodeexec.Config{Conn: h.conn, Key: h.key, Paired: h.active, Asking: h.asking, Log: h.log}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.owned.Go(func() { h.disconnect(ctx) })
	desk, err := join.Open(join.Config{Conn: h.conn, Key: h.key, Registry: h.registry, From: h.from, Log: h.log})
	if err != nil {
		return nil, err
	}
	h.desk.Store(desk)
	return h, nil
}

// connect opens the registry and connects to the message server. The gateway's own
// server asks the registry about keys; an external server may keep the registry.
func (h *Hub) connect() (err error) {
	registry := pairing.Options{Dir: h.cfg.Dir, GatewayKey: h.public, Changed: h.changed, Log: h.log}
	options := append(fabric.ConnectOptions(h.log), nats.Name("corral gateway"))
	failed := func(err error) {
		h.log.Warn("no connection to the message server; trying again", "error", err, "hint", corral.Hint(err))
	}
	link := func(connect func(...nats.Option) (*nats.Conn, error)) (err error) {
		h.conn, err = fabric.Connect(context.Background(), func(o nats.Option) (*nats.Conn, error) { return connect(append(options, o)...) }, failed)
		return err
	}
	if x := h.cfg.External; x != nil {
		if err := link(x.Connect); err != nil {
			return err
		}
		if x.Shared {
			if registry.Bucket, err = pairing.OpenBucket(context.Background(), natskv.Config{Conn: h.conn, Key: h.key, Log: h.log}); err != nil {
				return err
			}
		}
		h.registry, err = pairing.Open(registry)
		return err
	}
	if h.registry, err = pairing.Open(registry); err != nil {
		return err
	}
	h.server, err = broker.Start(broker.Config{Dir: h.cfg.Dir, Listen: h.cfg.Listen, WebSocket: h.cfg.WebSocket, Authorize: h.registry.Authorize, Log: h.log})
	if err != nil {
		return err
	}
	if err := link(h.server.Connect); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "look at the log of the gateway", "cannot connect to the gateway's own message server: %w", err)
	}
	return nil
}

// Close releases the nodes. Commands on them go on.
func (h *Hub) Close() error {
	var errs []error
	if d := h.desk.Load(); d != nil {
		errs = append(errs, d.Close())
	}
	h.cancel()
	h.owned.Wait()
	if h.nodes != nil {
		errs = append(errs, h.nodes.Close())
	}
	if h.server != nil { // before the registry, which has no nodes once it is closed
		if h.conn != nil {
			h.conn.Close()
		}
		h.server.Close()
	}
	if h.registry != nil {
		errs = append(errs, h.registry.Close())
	}
	if h.conn != nil {
		h.conn.Close()
	}
	return errors.Join(errs...)
}

// Nodes are the nodes that run commands for host node.
func (h *Hub) Nodes() corral.Nodes { return h.nodes }

// Shared reports whether other gateways have the same nodes.
func (h *Hub) Shared() bool { return h.cfg.External != nil && h.cfg.External.Shared }

// Registry returns the registry of nodes.
func (h *Hub) Registry() *pairing.Registry { return h.registry }

// Listens returns the addresses of the message server, those for WebSockets as
// "wss://0.0.0.0:7443"; for an external server, its URLs.
func (h *Hub) Listens() []string {
	if x := h.cfg.External; x != nil {
		return strings.Split(x.URL, ",")
	}
	var list []string
	if h.cfg.Listen != "" {
		list = append(list, h.server.Addr().String())
	}
	if a := h.server.WebSocketAddr(); a != nil {
		list = append(list, "wss://"+a.String())
	}
	return list
}

// from returns the address of a key, if the message server knows it.
func (h *Hub) from(key string) netip.Addr {
	if h.server == nil {
		return netip.Addr{}
	}
	return h.server.From(key)
}

// changed handles a change of the registry. It does not block.
func (h *Hub) changed(c pairing.Change) {
	h.changes.Add(1)
	if c.Event == pairing.EventAsked {
		q := c.Request
		h.log.Info("a machine asks to be a node", "code", q.Code, "name", q.Name, "from", q.From, "hint", "corral nodes approve "+q.Code)
	}
	if d := h.desk.Load(); d != nil {
		d.Changed(c)
	}
	if h.server == nil || c.Event != pairing.EventPaired && c.Event != pairing.EventRevoked {
		return
	}
	h.mu.Lock()
	h.stale = append(h.stale, c.Key)
	h.mu.Unlock()
	turn.Offer(h.work, struct{}{})
}

// flushLimit bounds the time that a key keeps its connections to receive the decision.
const flushLimit = time.Second

// disconnect cuts the connections of keys whose permissions have changed.
func (h *Hub) disconnect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.work:
		}
		// Let the machine hear the decision first. If it does not, it asks again.
		if err := h.conn.Conn().FlushTimeout(flushLimit); err != nil {
			h.log.Debug("the message server is slow", "error", err)
		}
		h.mu.Lock()
		keys := h.stale
		h.stale = nil
		h.mu.Unlock()
		for _, key := range keys {
			h.server.Disconnect(key)
		}
	}
}

// snapshot holds the nodes that the registry knew after some number of changes.
type snapshot struct {
	nodes   []nodeexec.Paired
	changes uint64
	at      time.Time
}

// snapshotAge bounds the delay until a node's new address is known.
const snapshotAge = time.Second

// asking counts the machines that wait for approval.
func (h *Hub) asking() int {
	n := 0
	for _, q := range h.registry.Requests() {
		if q.State == pairing.Pending {
			n++
		}
	}
	return n
}

// active returns the active nodes. It is called for every message of a node.
func (h *Hub) active() []nodeexec.Paired {
	changes := h.changes.Load()
	if s := h.paired.Load(); s != nil && s.changes == changes && time.Since(s.at) < snapshotAge {
		return s.nodes
	}
	s := &snapshot{changes: changes, at: time.Now()}
	for _, n := range h.registry.Nodes() {
		if n.RevokedAt.IsZero() {
			s.nodes = append(s.nodes, nodeexec.Paired{ID: n.ID, Name: n.Name, Addresses: n.Addresses, Labels: n.Labels})
		}
	}
	h.paired.Store(s)
	return s.nodes
}
