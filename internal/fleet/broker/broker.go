// Package broker is the message server inside a gateway: NATS over TLS, for
// nodes that dial in. It is the only package that knows the server's library,
// whose interface for embedding is not promised to stay.
//
// The server listens for NATS, for NATS in a WebSocket, or for both. A WebSocket passes
// proxies, and may share a port with a web server in front. Certificate, keys and
// permissions are the same for both. Behind a proxy every node seems to have the
// proxy's address: headers with another address could be forged.
//
// A connection authenticates with its nkey, by signing the server's nonce. The key of a
// node may use the subjects of that node and no other (see package fabric), so the
// server itself stops a node that speaks for another. A key that belongs to no node may
// only ask to become one. The gateway's own connection is made in memory and may use
// everything.
//
// The server makes its certificate itself and keeps it in its directory. No authority
// signs it: a client pins its Fingerprint.
//
// A connection that does not authenticate within some seconds is cut. Connections that
// belong to no node have places of their own, so they keep no node out; when there are
// too many, some are cut. Messages, subscriptions, connections, also those of one key,
// the data that waits for a slow connection, and log lines about them are bounded. Two things are not bounded here: the data that a node may
// send in a second, and the 1 MiB of headers that the library accepts in a request for
// a WebSocket.
//
// An external NATS server can take its place: see [External].
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/state/selfcert"
)

// Config of a Server. Dir, Authorize and an address are required.
type Config struct {
	// Dir holds the certificate. It exists already.
	Dir string
	// Listen is the address for nodes, as "127.0.0.1:7422", and WebSocket the one for
	// nodes that connect by WebSocket. Port 0 means any port. An empty address is not
	// used.
	Listen, WebSocket string
	// Authorize returns the node that a key belongs to, at every connection.
	Authorize func(nkey string) (nodeID string, ok bool)
	Log       *slog.Logger

	maxNodes, maxGuests int // 0: the constants
}

// Bounds of a Server.
const (
	maxPayload = 64 << 10 // bytes; see fabric.MaxData
	maxPending = 16 << 20 // bytes for a connection that does not read
	startLimit = 10 * time.Second
	helloLimit = 5 * time.Second // for the handshake before the first message
)

// A Server takes the connections of nodes.
type Server struct {
	server      *server.Server
	own         nkeys.KeyPair // of the gateway's connections
	ownPublic   string
	authorize   func(string) (string, bool)
	fingerprint string
	webSocket   net.Addr
	log         *slog.Logger
	lines       *rate.Limiter
	unsaid      atomic.Int64

	maxGuests int
	cancel    context.CancelFunc
	owned     sync.WaitGroup

	mu    sync.Mutex
	nodes map[uint64]struct{}            // connections of nodes and of the gateway
	conns map[string]map[uint64]struct{} // by nkey
	from  map[string]netip.Addr          // the last address of each key
}

// Start starts a server. Close ends it.
func Start(cfg Config) (*Server, error) {
	if cfg.Listen == "" && cfg.WebSocket == "" {
		return nil, corral.Errorf(corral.ErrInvalid, addressHint, "the message server has no address to listen on")
	}
	host, port, err := address(cfg.Listen)
	if err != nil {
		return nil, err
	}
	wsHost, wsPort, err := address(cfg.WebSocket)
	if err != nil {
		return nil, err
	}
	cert, err := selfcert.Load(filepath.Join(cfg.Dir, certificateFile), "the message server", "pair the nodes again")
	if err != nil {
		return nil, err
	}
	s := &Server{authorize: cfg.Authorize, log: cfg.Log, fingerprint: selfcert.Fingerprint(cert.Certificate[0]), lines: rate.NewLimiter(linesRate, linesBurst), nodes: map[uint64]struct{}{}, conns: map[string]map[uint64]struct{}{}, from: map[string]netip.Addr{}}
	s.log = cmp.Or(s.log, slog.New(slog.DiscardHandler))
	if s.own, err = nkeys.CreateUser(); err != nil {
		return nil, err
	}
	if s.ownPublic, err = s.own.PublicKey(); err != nil {
		return nil, err
	}
	s.maxGuests = cmp.Or(cfg.maxGuests, maxGuests)
	secure := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	s.server, err = server.NewServer(&server.Options{
		ServerName: "corral", Host: host, Port: port, DontListen: cfg.Listen == "",
		NoSigs: true, NoLog: true, NoSystemAccount: true,
		MaxPayload: maxPayload, MaxPending: maxPending, MaxConn: cmp.Or(cfg.maxNodes, maxNodes) + 2*s.maxGuests, MaxSubs: 16, MaxControlLine: 1024,
		WriteDeadline: 10 * time.Second, PingInterval: 5 * time.Second, MaxPingsOut: 2, AuthTimeout: helloLimit.Seconds(),
		TLSConfig:  secure,
		TLSTimeout: helloLimit.Seconds(), TLS: true, TLSHandshakeFirst: true,
		Websocket:         server.WebsocketOpts{Host: wsHost, Port: wsPort, TLSConfig: secure.Clone(), HandshakeTimeout: helloLimit},
		AlwaysEnableNonce: true, CustomClientAuthentication: s,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the message server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	l := logger{s, make(chan string, 1)}
	s.server.SetLoggerV2(l, false, false, false)
	s.server.Start()
	for end := time.Now().Add(startLimit); !s.server.ReadyForConnections(20 * time.Millisecond); {
		why := "it does not begin to"
		select {
		case why = <-l.fatal:
		default:
			if time.Now().Before(end) {
				continue
			}
		}
		s.Close()
		where := strings.Join(slices.DeleteFunc([]string{cfg.Listen, cfg.WebSocket}, func(a string) bool { return a == "" }), " and ")
		return nil, corral.Errorf(corral.ErrUnavailable, "choose another address to listen on, or end what listens there", "the message server cannot listen on %s: %s", where, why)
	}
	if cfg.WebSocket != "" {
		if s.webSocket, err = webSocketAddr(s.server); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.owned.Go(func() { s.watch(ctx) })
	return s, nil
}

const addressHint = "write it like 0.0.0.0:7422"

// address splits an address to listen on for the server's library. Both results are
// empty for an empty address.
func address(s string) (host string, port int, err error) {
	if s == "" {
		return "", 0, nil
	}
	host, name, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, corral.Errorf(corral.ErrInvalid, addressHint, "%q is no address to listen on: %w", s, err)
	}
	if port, err = net.LookupPort("tcp", name); err != nil {
		return "", 0, corral.Errorf(corral.ErrInvalid, addressHint, "%q is no port to listen on: %w", name, err)
	}
	port = cmp.Or(port, server.RANDOM_PORT)
	return host, port, nil
}

// webSocketAddr returns the address where a running server listens for WebSockets.
func webSocketAddr(s *server.Server) (net.Addr, error) {
	u, err := url.Parse(s.WebsocketURL())
	if err != nil {
		return nil, fmt.Errorf("cannot tell where the message server listens for WebSockets: %w", err)
	}
	a, err := net.ResolveTCPAddr("tcp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("cannot tell where the message server listens for WebSockets: %w", err)
	}
	return a, nil
}

// Close ends the server and every connection.
func (s *Server) Close() {
	s.cancel()
	s.owned.Wait()
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// Addr is the address that nodes connect to; nil if there is only the WebSocket.
func (s *Server) Addr() net.Addr { return s.server.Addr() }

// WebSocketAddr is the address that nodes connect to by WebSocket; nil if there is
// none.
func (s *Server) WebSocketAddr() net.Addr { return s.webSocket }

// Fingerprint is the SHA-256 of the certificate, in hexadecimal.
func (s *Server) Fingerprint() string { return s.fingerprint }

// Connect opens a connection for the gateway itself.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(opts, nats.InProcessServer(s.server), nats.Nkey(s.ownPublic, s.own.Sign))...)
}

// Disconnect cuts the connections of a key, so that it has to pass Authorize again.
func (s *Server) Disconnect(nkey string) {
	s.mu.Lock()
	ids := s.conns[nkey]
	delete(s.conns, nkey)
	s.mu.Unlock()
	for id := range ids {
		_ = s.server.DisconnectClientByID(id) // if it is gone already, all is well
	}
}

// From returns the last address that a key connected from, or the zero address.
func (s *Server) From(nkey string) netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from[nkey]
}

// Check authenticates a connection. The server calls it for each one.
func (s *Server) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	sig, err := base64.RawURLEncoding.DecodeString(o.Sig)
	if err != nil {
		return false
	}
	key, err := nkeys.FromPublicKey(o.Nkey)
	if err != nil || !isKey(o.Nkey) || key.Verify(c.GetNonce(), sig) != nil {
		s.logLimited(slog.LevelWarn, "refused a connection without a valid key", "from", remote(c))
		return false
	}
	user := &server.User{Username: o.Nkey}
	if o.Nkey == s.ownPublic {
		s.hasPlace(c)
		c.RegisterUser(user)
		return true
	}
	if !s.note(o.Nkey, c) {
		s.logLimited(slog.LevelWarn, "refused a connection: its key has too many", "from", remote(c), "key", o.Nkey)
		return false
	}
	// After note: Disconnect finds the connection, or the key is not authorized any more.
	node, ok := s.authorize(o.Nkey)
	if ok = ok && fabric.ValidateNodeID(node) == nil; ok {
		s.hasPlace(c)
	} else {
		node = ""
	}
	r := rightsOf(o.Nkey, node)
	user.Permissions = &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: r.publish},
		Subscribe: &server.SubjectPermission{Allow: r.subscribe},
	}
	c.RegisterUser(user)
	return true
}

// note remembers a connection, unless its key has too many.
func (s *Server) note(nkey string, c server.ClientAuthentication) bool {
	id := c.GetID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns[nkey]) >= maxOfKey {
		for id := range s.conns[nkey] {
			if s.server.GetClient(id) == nil {
				delete(s.conns[nkey], id)
			}
		}
		if len(s.conns[nkey]) >= maxOfKey {
			return false
		}
	}
	if len(s.conns) >= 2*maxNodes { // drops keys whose connections are all closed
		for key, ids := range s.conns {
			alive := false
			for id := range ids {
				alive = alive || s.server.GetClient(id) != nil
			}
			if !alive {
				delete(s.conns, key)
				delete(s.from, key)
			}
		}
	}
	if a, err := netip.ParseAddrPort(remote(c)); err == nil {
		s.from[nkey] = a.Addr().Unmap()
	}
	if s.conns[nkey] == nil {
		s.conns[nkey] = map[uint64]struct{}{}
	}
	s.conns[nkey][id] = struct{}{}
	return true
}

func remote(c server.ClientAuthentication) string {
	if a := c.RemoteAddress(); a != nil {
		return a.String()
	}
	return "this program"
}

// certificateFile has the certificate and its key.
const certificateFile = "nodes.pem"
