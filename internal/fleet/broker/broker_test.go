package broker

import (
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/natstest"
)

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// transports are the ways to a server, by the URL of its test server.
var transports = map[string]func(*Server) string{
	"TLS":       func(s *Server) string { return "tls://" + s.Addr().String() },
	"WebSocket": func(s *Server) string { return "wss://" + s.WebSocketAddr().String() },
}

// overEach runs a test over each transport.
func overEach(t *testing.T, test func(t *testing.T, url func(*Server) string)) {
	for name, url := range transports {
		t.Run(name, func(t *testing.T) { test(t, url) })
	}
}

func serve(t *testing.T, dir string, authorize func(string) (string, bool)) *Server {
	t.Helper()
	s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Authorize: authorize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t *testing.T, url string, s *Server, key nkeys.KeyPair, more ...nats.Option) *nats.Conn {
	t.Helper()
	opts, err := Pinned(s.Fingerprint(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect(url, append(opts, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A node speaks for itself alone, and hears nothing that is said to others.
func TestPermissions(t *testing.T) { overEach(t, testPermissions) }

func testPermissions(t *testing.T, url func(*Server) string) {
	key, public := natstest.NewKey(t)
	stranger, strange := natstest.NewKey(t)
	s := serve(t, t.TempDir(), func(k string) (string, bool) { return "n1", k == public })
	gateway, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gateway.Close)
	all, err := gateway.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		who        nkeys.KeyPair
		may, mayNo []string // publish
		hear, deaf []string // subscribe
	}{
		{
			key,
			[]string{fabric.HelloSubject("n1"), fabric.ToGateway("life", "n1", fabric.KindOutput, 1)},
			[]string{fabric.HelloSubject("n2"), fabric.ToGateway("life", "n2", fabric.KindOutput, 1), fabric.RequestSubject("n1"), fabric.RequestSubject("n2"), "$SYS.x", "x", "_INBOX.x"},
			[]string{fabric.RequestSubject("n1"), fabric.NodeSubjects("n1"), fabric.WhoSubject("n1")},
			[]string{fabric.RequestSubject("n2"), fabric.AllHellos, fabric.GatewaySubjects("life"), ">", "fab.>", "fab.n.>", "fab.n.*.req", "$SYS.>", "_INBOX.>"},
		},
		{
			stranger,
			[]string{"fab.pair." + strange},
			[]string{fabric.HelloSubject("n1"), fabric.RequestSubject("n1"), "fab.pair." + public, "fab.paired." + strange, "x"},
			[]string{"fab.paired." + strange},
			[]string{"fab.paired." + public, "fab.paired.*", "fab.pair.>", fabric.NodeSubjects("n1"), ">"},
		},
	} {
		errs := make(chan error, 100)
		c := connect(t, url(s), s, tc.who, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))
		for _, subject := range tc.may {
			if err := errors.Join(c.Publish(subject, []byte("x")), c.Flush()); err != nil {
				t.Fatal(err)
			}
			if m, err := all.NextMsg(5 * time.Second); err != nil || m.Subject != subject {
				t.Errorf("%s: %v, %v", subject, m, err)
			}
		}
		for _, subject := range tc.mayNo {
			if err := errors.Join(c.Publish(subject, []byte("x")), c.Flush()); err != nil {
				t.Fatal(err)
			}
			if err := <-errs; !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("publishing on %s: %v", subject, err)
			}
		}
		for _, subject := range tc.hear {
			if _, err := c.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Flush(); err != nil || len(errs) > 0 {
			t.Errorf("%v, %d errors", err, len(errs))
		}
		for _, subject := range tc.deaf {
			if _, err := c.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			if err := <-errs; !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("subscribing to %s: %v", subject, err)
			}
		}
		if n, _, _ := all.Pending(); n > 0 {
			t.Errorf("%d messages that may not be sent arrived", n)
		}
		c.Close()
	}
}

// The certificate stays, so that its fingerprint does; nobody else reads it,
// and nobody connects to another.
func TestCertificate(t *testing.T) { overEach(t, testCertificate) }

func testCertificate(t *testing.T, url func(*Server) string) {
	dir := t.TempDir()
	s := serve(t, dir, func(string) (string, bool) { return "", false })
	first := s.Fingerprint()
	s.Close()
	s = serve(t, dir, func(string) (string, bool) { return "", false })
	if got := s.Fingerprint(); got != first || len(got) != 64 {
		t.Errorf("the fingerprint was %s and is %s", first, got)
	}
	if st, err := os.Stat(filepath.Join(dir, "nodes.pem")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	key, public := natstest.NewKey(t)
	opts, err := Pinned(strings.Repeat("0", 64), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Connect(url(s), opts...); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("connecting to a gateway with another certificate: %v", err)
	}
	// Nor does anything go without TLS, or without a key.
	opts, err = Pinned(first, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Connect(url(s), opts[1:]...); err == nil {
		t.Error("connected without a key")
	}
	scheme, address, _ := strings.Cut(url(s), "s://")
	if scheme == "tl" {
		scheme = "nats"
	}
	if c, err := nats.Connect(scheme+"://"+address, opts[0]); err == nil {
		t.Errorf("connected to %s without TLS", c.ConnectedUrl())
	}
	// A key has one spelling, and is one of a user.
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	for public, key := range map[string]nkeys.KeyPair{public + "\n": key, must(account.PublicKey()): account} {
		if _, err := nats.Connect(url(s), append(opts, nats.Nkey(public, key.Sign))...); err == nil {
			t.Errorf("connected with the key %q", public)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "nodes.pem"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a certificate that is none: %v", err)
	}
}

// A key that is not a node's any more is disconnected, and is then a
// stranger's.
func TestDisconnect(t *testing.T) { overEach(t, testDisconnect) }

func testDisconnect(t *testing.T, url func(*Server) string) {
	key, public := natstest.NewKey(t)
	var revoked atomic.Bool
	s := serve(t, t.TempDir(), func(k string) (string, bool) { return "n1", k == public && !revoked.Load() })
	again := make(chan struct{}, 1)
	errs := make(chan error, 10)
	c := connect(t, url(s), s, key, nats.ReconnectWait(time.Millisecond), nats.ReconnectHandler(func(*nats.Conn) { again <- struct{}{} }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))
	revoked.Store(true)
	s.Disconnect(public)
	<-again
	if err := errors.Join(c.Publish(fabric.HelloSubject("n1"), nil), c.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("publishing as a node that was: %v", err)
	}
}

func TestAddressInUse(t *testing.T) {
	s := serve(t, t.TempDir(), func(string) (string, bool) { return "", false })
	for _, cfg := range []Config{{}, {Listen: "nonsense"}, {Listen: "127.0.0.1:none"}, {WebSocket: "nonsense"}, {Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:none"}} {
		cfg.Dir = t.TempDir()
		if _, err := Start(cfg); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("listening on %q and %q: %v", cfg.Listen, cfg.WebSocket, err)
		}
	}
	for _, cfg := range []Config{{Listen: s.Addr().String()}, {WebSocket: s.WebSocketAddr().String()}, {Listen: "127.0.0.1:0", WebSocket: s.WebSocketAddr().String()}} {
		cfg.Dir = t.TempDir()
		if _, err := Start(cfg); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "in use") {
			t.Errorf("listening where somebody does, on %q and %q: %v", cfg.Listen, cfg.WebSocket, err)
		}
	}
}

// A server may be there for WebSockets alone, or for none.
func TestOneTransport(t *testing.T) {
	key, _ := natstest.NewKey(t)
	nobody := func(string) (string, bool) { return "", false }
	for name, cfg := range map[string]Config{"TLS": {Listen: "127.0.0.1:0"}, "WebSocket": {WebSocket: "127.0.0.1:0"}} {
		cfg.Dir, cfg.Authorize = t.TempDir(), nobody
		s, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		if (s.Addr() != nil) != (name == "TLS") || (s.WebSocketAddr() != nil) != (name == "WebSocket") {
			t.Errorf("%s: %v and %v", name, s.Addr(), s.WebSocketAddr())
		}
		connect(t, transports[name](s), s, key)
		c, err := s.Connect()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// Whatever a WebSocket's request claims, who connects is where he is.
func TestForwardedFor(t *testing.T) {
	key, public := natstest.NewKey(t)
	s := serve(t, t.TempDir(), func(string) (string, bool) { return "", false })
	connect(t, transports["WebSocket"](s), s, key, nats.WebSocketConnectionHeaders(http.Header{"X-Forwarded-For": {"192.0.2.7"}}))
	if got := s.From(public); got != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("the key is said to be at %v", got)
	}
}
