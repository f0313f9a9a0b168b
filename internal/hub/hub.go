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
//
// Without gateway.seed no node obeys the gateway, so a copy of it belongs into a
// safe place.
package hub

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/broker"
	"github.com/corral-exec/corral/internal/fabric"
	"github.com/corral-exec/corral/internal/join"
	"github.com/corral-exec/corral/internal/pairing"
	"github.com/corral-exec/corral/nodeexec"
)

// Config of a Hub. Dir is required, and Listen, WebSocket, or both.
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
	Log       *slog.Logger
}

// A Hub is the nodes of a gateway. Its methods may be called at any time.
type Hub struct {
	cfg      Config
	log      *slog.Logger
	key      nkeys.KeyPair
	public   string
	registry *pairing.Registry
	server   *broker.Server
	conn     *nats.Conn
	desk     atomic.Pointer[join.Desk] // nil until it is open
	nodes    *nodeexec.Fabric

	paired  atomic.Pointer[snapshot]
	changes atomic.Uint64

	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu    sync.Mutex
	stale []string      // keys of which the connections have to go
	work  chan struct{} // there are some
}

// Open opens the nodes of a gateway. Close ends it.
func Open(cfg Config) (_ *Hub, err error) {
	h := &Hub{cfg: cfg, log: cfg.Log, work: make(chan struct{}, 1), cancel: func() {}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
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
	if h.registry, err = pairing.Open(pairing.Options{Dir: cfg.Dir, GatewayKey: h.public, Changed: h.changed, Log: h.log}); err != nil {
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
	if h.nodes, err = nodeexec.New(nodeexec.Config{Conn: h.conn, Key: h.key, Paired: h.active, Log: h.log}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.owned.Go(func() { h.disconnect(ctx) })
	desk, err := join.Open(join.Config{Conn: h.conn, Key: h.key, Registry: h.registry, From: h.server.From, Log: h.log})
	if err != nil {
		return nil, err
	}
	h.desk.Store(desk)
	return h, nil
}

// connect starts the message server, and connects to it.
func (h *Hub) connect() error {
	var err error
	h.server, err = broker.Start(broker.Config{Dir: h.cfg.Dir, Listen: h.cfg.Listen, WebSocket: h.cfg.WebSocket, Authorize: h.registry.Authorize, Log: h.log})
	if err != nil {
		return err
	}
	if h.conn, err = h.server.Connect(fabric.ConnectOptions(h.log)...); err != nil {
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
	if h.conn != nil {
		h.conn.Close()
	}
	if h.server != nil {
		h.server.Close()
	}
	if h.registry != nil {
		errs = append(errs, h.registry.Close())
	}
	return errors.Join(errs...)
}

// Nodes are where commands of host node go to.
func (h *Hub) Nodes() corral.Nodes { return h.nodes }

// Registry knows who is a node.
func (h *Hub) Registry() *pairing.Registry { return h.registry }

// Listens are the addresses of the message server, those for WebSockets as
// "wss://0.0.0.0:7443".
func (h *Hub) Listens() []string {
	var list []string
	if h.cfg.Listen != "" {
		list = append(list, h.server.Addr().String())
	}
	if a := h.server.WebSocketAddr(); a != nil {
		list = append(list, "wss://"+a.String())
	}
	return list
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
	if c.Event != pairing.EventPaired && c.Event != pairing.EventRevoked {
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

// disconnect cuts the connections of keys of which the permissions have changed.
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

// snapshot is the nodes of which the registry knew after some changes.
type snapshot struct {
	nodes   []nodeexec.Paired
	changes uint64
	at      time.Time
}

// snapshotAge is for how long an address that a node was seen at may be unknown.
const snapshotAge = time.Second

// active are the nodes there are. It is called for every message of one.
func (h *Hub) active() []nodeexec.Paired {
	changes := h.changes.Load()
	if s := h.paired.Load(); s != nil && s.changes == changes && time.Since(s.at) < snapshotAge {
		return s.nodes
	}
	s := &snapshot{changes: changes, at: time.Now()}
	for _, n := range h.registry.Nodes() {
		if n.RevokedAt.IsZero() {
			s.nodes = append(s.nodes, nodeexec.Paired{ID: n.ID, Name: n.Name, Addresses: n.Addresses})
		}
	}
	h.paired.Store(s)
	return s.nodes
}

// Lines are what a machine needs to know to be a node here, one for each way to
// connect.
func (h *Hub) Lines() []join.Line {
	var lines []join.Line
	line := func(at net.Addr, webSocket bool) {
		l := join.Line{Hosts: reachable(at), WebSocket: webSocket, Key: h.public, Cert: h.server.Fingerprint()}
		if h.cfg.Advertise != "" {
			l.Hosts = advertised(h.cfg.Advertise, at, len(lines) > 0)
		}
		lines = append(lines, l)
	}
	if h.cfg.Listen != "" {
		line(h.server.Addr(), false)
	}
	if a := h.server.WebSocketAddr(); a != nil {
		line(a, true)
	}
	return lines
}

// advertised are the hosts of a list, with the port that is listened at if they
// are not about that.
func advertised(list string, at net.Addr, otherPort bool) []string {
	hosts := strings.Split(list, ",")
	for i, h := range hosts {
		hosts[i] = strings.TrimSpace(h)
		host, _, err := net.SplitHostPort(hosts[i])
		_, port, perr := net.SplitHostPort(at.String())
		if otherPort && err == nil && perr == nil {
			hosts[i] = net.JoinHostPort(host, port)
		}
	}
	return hosts
}

// maxHosts is how many addresses of this machine a line has at most.
const maxHosts = 4

// reachable is where others can reach an address that is listened at: for that
// of all interfaces, by the name of this machine and by its addresses.
func reachable(addr net.Addr) []string {
	host, port, err := net.SplitHostPort(addr.String())
	ip, perr := netip.ParseAddr(host)
	if err != nil || perr != nil || !ip.IsUnspecified() {
		return []string{addr.String()}
	}
	var hosts []string
	if name, err := os.Hostname(); err == nil && name != "" && name != "localhost" {
		hosts = append(hosts, net.JoinHostPort(name, port))
	}
	addresses, _ := net.InterfaceAddrs() // if they cannot be listed there is the name
	for _, six := range []bool{false, true} {
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			ip := p.Addr().Unmap()
			if err == nil && ip.Is6() == six && ip.IsGlobalUnicast() && len(hosts) < maxHosts {
				hosts = append(hosts, net.JoinHostPort(ip.String(), port))
			}
		}
	}
	if len(hosts) == 0 {
		hosts = []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return hosts
}
