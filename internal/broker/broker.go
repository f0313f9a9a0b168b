// Package broker is the message server inside a gateway: NATS over TLS, for
// nodes that dial in. It is the only package that knows the server's library,
// whose interface for embedding is not promised to stay.
//
// A connection is known by its nkey, with which it signs the server's nonce.
// The key of a node may use the subjects of that node and no other (see package
// fabric), so that the server itself stops a node that speaks for another. A
// key that belongs to no node may ask to be one, and nothing else. The
// gateway's own connection is made in memory and may use everything.
//
// The certificate is made by the server itself and kept in its directory. It is
// nobody's but its own: who connects pins its Fingerprint.
package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fabric"
)

// Config of a Server. Dir and Authorize are required.
type Config struct {
	// Dir is where the certificate is kept. It exists.
	Dir string
	// Listen is the address for nodes, as "127.0.0.1:7422"; port 0 is any.
	Listen string
	// Authorize says which node has a key, at every connection.
	Authorize func(nkey string) (nodeID string, ok bool)
	Log       *slog.Logger
}

// Bounds of a Server.
const (
	maxPayload     = 64 << 10 // bytes; see fabric.MaxData
	maxConnections = 8192
	maxPending     = 16 << 20 // bytes for a connection that does not read
	startLimit     = 10 * time.Second
)

// A Server takes the connections of nodes.
type Server struct {
	server      *server.Server
	own         nkeys.KeyPair // of the gateway's connections
	ownPublic   string
	authorize   func(string) (string, bool)
	fingerprint string
	log         *slog.Logger

	mu    sync.Mutex
	conns map[string]map[uint64]struct{} // by nkey
	from  map[string]netip.Addr          // where a key connected from last
}

// Start starts a server. Close ends it.
func Start(cfg Config) (*Server, error) {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "write it like 0.0.0.0:7422", "%q is no address to listen on: %w", cfg.Listen, err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "write it like 0.0.0.0:7422", "%q is no port to listen on: %w", port, err)
	}
	if number == 0 {
		number = server.RANDOM_PORT
	}
	cert, err := certificate(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate in %s: %w", cfg.Dir, err)
	}
	s := &Server{authorize: cfg.Authorize, log: cfg.Log, fingerprint: fingerprint(cert.Certificate[0]), conns: map[string]map[uint64]struct{}{}, from: map[string]netip.Addr{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.own, err = nkeys.CreateUser(); err != nil {
		return nil, err
	}
	if s.ownPublic, err = s.own.PublicKey(); err != nil {
		return nil, err
	}
	s.server, err = server.NewServer(&server.Options{
		ServerName: "corral", Host: host, Port: number,
		NoSigs: true, NoLog: true, NoSystemAccount: true,
		MaxPayload: maxPayload, MaxPending: maxPending, MaxConn: maxConnections, MaxSubs: 16, MaxControlLine: 1024,
		WriteDeadline: 10 * time.Second, PingInterval: 5 * time.Second, MaxPingsOut: 2, AuthTimeout: 5,
		TLSConfig:  &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
		TLSTimeout: 5, TLS: true, TLSHandshakeFirst: true,
		AlwaysEnableNonce: true, CustomClientAuthentication: s,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the message server: %w", err)
	}
	l := logger{s.log, make(chan string, 1)}
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
		return nil, corral.Errorf(corral.ErrUnavailable, "choose another address to listen on, or end what listens there", "the message server cannot listen on %s: %s", cfg.Listen, why)
	}
	return s, nil
}

// Close ends the server and every connection.
func (s *Server) Close() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// Addr is where nodes connect to.
func (s *Server) Addr() net.Addr { return s.server.Addr() }

// Fingerprint is that of the certificate: the SHA-256 of it, in hexadecimal.
func (s *Server) Fingerprint() string { return s.fingerprint }

// Connect makes a connection of the gateway's own.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(opts, nats.InProcessServer(s.server), nats.Nkey(s.ownPublic, s.own.Sign))...)
}

// Disconnect ends the connections of a key, so that what Authorize says now
// holds for it.
func (s *Server) Disconnect(nkey string) {
	s.mu.Lock()
	ids := s.conns[nkey]
	delete(s.conns, nkey)
	s.mu.Unlock()
	for id := range ids {
		_ = s.server.DisconnectClientByID(id) // one that is gone is what is wanted
	}
}

// From is the address that a key connected from last; the zero address if it
// never did.
func (s *Server) From(nkey string) netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from[nkey]
}

// Check is called by the server for every connection.
func (s *Server) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	sig, err := base64.RawURLEncoding.DecodeString(o.Sig)
	if err != nil {
		return false
	}
	key, err := nkeys.FromPublicKey(o.Nkey)
	if err != nil || key.Verify(c.GetNonce(), sig) != nil {
		s.log.Warn("refused a connection without a valid key", "from", remote(c))
		return false
	}
	s.note(o.Nkey, c)
	user := &server.User{Username: o.Nkey}
	if o.Nkey == s.ownPublic {
		c.RegisterUser(user)
		return true
	}
	ask, answer := fabric.PairSubjects(o.Nkey)
	publish, subscribe := []string{ask}, []string{answer}
	if node, ok := s.authorize(o.Nkey); ok && fabric.ValidateNodeID(node) == nil {
		publish = append(publish, fabric.FromNode(node), fabric.HelloSubject(node))
		subscribe = append(subscribe, fabric.NodeSubjects(node))
	}
	user.Permissions = allow(publish, subscribe)
	c.RegisterUser(user)
	return true
}

// note remembers connections by key. Those that are gone go when there are
// many.
func (s *Server) note(nkey string, c server.ClientAuthentication) {
	id := c.GetID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns[nkey]) >= 16 {
		for id := range s.conns[nkey] {
			if s.server.GetClient(id) == nil {
				delete(s.conns[nkey], id)
			}
		}
	}
	if len(s.conns) >= 2*maxConnections {
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
}

func allow(publish, subscribe []string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}
}

func remote(c server.ClientAuthentication) string {
	if a := c.RemoteAddress(); a != nil {
		return a.String()
	}
	return "this program"
}

// Pinned is how a node connects: to a server whose certificate has that
// fingerprint, with a key of its own.
func Pinned(want string, key nkeys.KeyPair) ([]nats.Option, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return []nats.Option{
		nats.Nkey(public, key.Sign),
		nats.TLSHandshakeFirst(),
		nats.Secure(&tls.Config{
			MinVersion: tls.VersionTLS13,
			// The certificate is known by itself, and not by who signed it.
			InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				if got := fingerprint(c.PeerCertificates[0].Raw); got != strings.ToLower(want) {
					return corral.Errorf(corral.ErrDenied, "pair the node again, if it is the right gateway",
						"the gateway's certificate has the fingerprint %s, and not %s", got, want)
				}
				return nil
			},
		}),
	}, nil
}

func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// certificate loads the certificate of a directory, or makes it.
func certificate(dir string) (tls.Certificate, error) {
	path := filepath.Join(dir, "nodes.pem")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if data, err = newCertificate(); err == nil {
			err = writeFile(path, data)
		}
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(data, data)
}

func newCertificate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "corral gateway"}, DNSNames: []string{"corral"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().AddDate(100, 0, 0), // it is pinned, and cannot be renewed
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// writeFile writes a file that is whole or not there, and nobody else's.
func writeFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".nodes-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// logger passes on what the server logs.
type logger struct {
	log   *slog.Logger
	fatal chan string // the first thing that ends the server
}

func (l logger) write(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "message server: "+fmt.Sprintf(format, v...))
	}
}

func (l logger) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l logger) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
	l.write(slog.LevelError, format, v)
}
func (l logger) Errorf(format string, v ...any) { l.write(slog.LevelError, format, v) }
func (l logger) Debugf(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l logger) Tracef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
