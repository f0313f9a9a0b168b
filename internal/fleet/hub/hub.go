// Package hub is the nodes of a gateway: it puts together who is a node (package
// pairing), the message server that they connect to (package broker), the
// desk at which machines ask to be nodes (package join), and the commands on
// them (package nodeexec).
//
// A change of the registry takes effect at once: a machine that waits is told,
// and the connections of a key that was paired or revoked are cut, so that the
// next one has the permissions that the key has now.
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
// Without gateway.seed no node obeys the gateway, so a copy of it belongs into a
// safe place.
//
// # An external message server
//
// With [External] there is no server of its own. Who may connect there, and
// which subjects a key may use, is up to that server's configuration, for which
// [ServerConfig] is: a node that is revoked is not spoken to any more, but stays
// connected until it is taken out there as well. From where nodes connect is not
// known then. It may keep the registry and the approvals too, for several gateways with
// the same gateway.seed.
package hub

import (
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
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/nodeexec"
)

// Config of a Hub. Dir is required, and Listen, WebSocket, or both; or External.
type Config struct {
	// Dir is where the files are. It is made if need be.
	Dir string
	// Listen is the address for nodes, as "0.0.0.0:7422", and WebSocket that for
	// nodes that connect by WebSocket. Port 0 is any.
	Listen, WebSocket string
	// Advertise is where nodes connect to, as "gw.example.com:7422"; several are
	// separated by commas. Empty: where the message server listens, by the names
	// and addresses of this machine. If it listens in both ways, the ports of
	// the second are its own.
	Advertise string
	// External is a message server that is there, in place of an own one.
	External *External
	Log      *slog.Logger
}

// External is a message server that is not Corral's own.
type External struct {
	broker.External
	// Shared has the registry and the approvals at the message server's JetStream,
	// for all gateways that have this one's key.
	Shared bool
}

// A Hub is the nodes of a gateway. Its methods may be called at any time.
type Hub struct {
	cfg      Config
	log      *slog.Logger
	key      nkeys.KeyPair
	public   string
	registry *pairing.Registry
	server   *broker.Server // nil if it is an external one
	conn     *nats.Conn
	desk     atomic.Pointer[join.Desk] // nil until it is open
	nodes    *nodeexec.Fabric

	paired  atomic.Pointer[snapshot]
	changes atomic.Uint64

	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu    sync.Mutex
	stale []string      // keys whose connections have to go
	work  chan struct{} // there are some
}

// Open opens the nodes of a gateway. Close ends it.
func Open(cfg Config) (_ *Hub, err error) {
	h := &Hub{cfg: cfg, log: cfg.Log, work: make(chan struct{}, 1), cancel: func() {}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
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

// connect opens the registry, and connects to the message server, which asks the
// registry if it is the own one, and may have it if it is not.
func (h *Hub) connect() (err error) {
	registry := pairing.Options{Dir: h.cfg.Dir, GatewayKey: h.public, Changed: h.changed, Log: h.log}
	options := fabric.ConnectOptions(h.log)
	if x := h.cfg.External; x != nil {
		if h.conn, err = x.Connect(append(options, nats.Name("corral gateway"))...); err != nil {
			return err
		}
		if x.Shared {
			if registry.Bucket, err = pairing.OpenBucket(context.Background(), pairing.BucketConfig{Conn: h.conn, Key: h.key, Log: h.log}); err != nil {
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
	if h.conn, err = h.server.Connect(options...); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "look at the log of the gateway", "cannot connect to the gateway's own message server: %w", err)
	}
	return nil
}

// Close lets go of the nodes. Commands on them go on.
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

// Nodes are where commands of host node go to.
func (h *Hub) Nodes() corral.Nodes { return h.nodes }

// Shared reports whether other gateways have the same nodes.
func (h *Hub) Shared() bool { return h.cfg.External != nil && h.cfg.External.Shared }

// Registry knows who is a node.
func (h *Hub) Registry() *pairing.Registry { return h.registry }

// Listens are the addresses of the message server, those for WebSockets as
// "wss://0.0.0.0:7443"; of an external one they are its URLs.
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

// from is the address that the message server sees a key at, as far as it says.
func (h *Hub) from(key string) netip.Addr {
	if h.server == nil {
		return netip.Addr{}
	}
	return h.server.From(key)
}

// changed is told of each change of the registry, and does not block.
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
	select {
	case h.work <- struct{}{}:
	default:
	}
}

// flushLimit bounds how long a key keeps its connections that has not taken what
// it was told.
const flushLimit = time.Second

// disconnect cuts the connections of keys whose permissions have changed.
func (h *Hub) disconnect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.work:
		}
		// So that the machine hears first what was decided. If not, it asks
		// again.
		if err := h.conn.FlushTimeout(flushLimit); err != nil {
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

// snapshot is the nodes that the registry knew after some changes.
type snapshot struct {
	nodes   []nodeexec.Paired
	changes uint64
	at      time.Time
}

// snapshotAge is for how long an address that a node was seen at may be unknown.
const snapshotAge = time.Second

// asking is how many machines wait to be approved.
func (h *Hub) asking() int {
	n := 0
	for _, q := range h.registry.Requests() {
		if q.State == pairing.Pending {
			n++
		}
	}
	return n
}

// active are the nodes there are. It is called for every message of one.
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
