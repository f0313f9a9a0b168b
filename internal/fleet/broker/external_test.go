package broker

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/natstest"
)

func serverConfig(t *testing.T, gateways []string, nodes ...User) string {
	t.Helper()
	text, err := ServerConfig(gateways, nil, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// seedFile is a file with the seed of a key, as an operator has it.
func seedFile(t *testing.T, key nkeys.KeyPair) string {
	t.Helper()
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "gateway.nk")
	if err := os.WriteFile(path, append(seed, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Of several servers, any one will do, whichever of them is not there.
func TestSeveral(t *testing.T) {
	own, gateway := natstest.NewKey(t)
	key, public := natstest.NewKey(t)
	s := natstest.Start(t, serverConfig(t, []string{gateway}, User{Key: public, Node: "n1"}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "tls://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{s.URL + "," + gone, gone + "," + s.URL} {
		x := External{URL: url, Creds: seedFile(t, own), Cert: s.Cert}
		gw, err := x.Connect(nats.DontRandomize())
		if err != nil {
			t.Fatal(err)
		}
		gw.Close()
		c, err := Dial(url, s.Cert, key, nats.DontRandomize())
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// A server of somebody else's, with the configuration that ServerConfig makes,
// lets a gateway and nodes say what they say on a gateway's own, and nothing
// else.
func TestExternal(t *testing.T) {
	own, gateway := natstest.NewKey(t)
	key, public := natstest.NewKey(t)
	stranger, strange := natstest.NewKey(t)
	unknown, _ := natstest.NewKey(t)
	s := natstest.Start(t, serverConfig(t, []string{gateway}, User{public, "n1", "builder\n}"}, User{Key: strange}))
	x := External{URL: s.URL, Creds: seedFile(t, own), Cert: s.Cert}
	gw, err := x.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gw.Close)
	var all []*nats.Subscription
	for _, subject := range []string{fabric.GatewaySubjects("life"), fabric.AllHellos, "fab.pair.*"} {
		sub, err := gw.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sub)
	}
	if err := gw.Flush(); err != nil {
		t.Fatal(err)
	}
	heard := func() (subjects []string) {
		for _, sub := range all {
			for {
				m, err := sub.NextMsg(time.Millisecond)
				if err != nil {
					break
				}
				subjects = append(subjects, m.Subject)
			}
		}
		return subjects
	}
	for _, tc := range []struct {
		who              nkeys.KeyPair
		may, mayNot      []string // publish
		hear, mayNotHear []string
	}{
		{
			key,
			[]string{fabric.HelloSubject("n1"), fabric.ToGateway("life", "n1", fabric.KindOutput, 1), "fab.pair." + public},
			[]string{fabric.HelloSubject("n2"), fabric.ToGateway("life", "n2", fabric.KindOutput, 1), "fab.pair." + strange, fabric.RequestSubject("n1"), "x"},
			[]string{fabric.NodeSubjects("n1"), "fab.paired." + public},
			[]string{fabric.NodeSubjects("n2"), fabric.AllHellos, fabric.GatewaySubjects("life"), ">", "fab.>"},
		},
		{
			stranger,
			[]string{"fab.pair." + strange},
			[]string{fabric.HelloSubject("n1"), "fab.pair." + public, "x"},
			[]string{"fab.paired." + strange},
			[]string{"fab.paired." + public, "fab.paired.*", fabric.NodeSubjects("n1")},
		},
	} {
		errs := make(chan error, 100)
		c, err := Dial(s.URL, s.Cert, tc.who, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		for _, subject := range append(tc.may, tc.mayNot...) {
			if err := c.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, subject := range append(tc.hear, tc.mayNotHear...) {
			if _, err := c.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(c.Flush(), gw.Flush()); err != nil {
			t.Fatal(err)
		}
		if got := heard(); !sameSet(got, tc.may) {
			t.Errorf("the gateway heard %q, and not %q", got, tc.may)
		}
		for range len(tc.mayNot) + len(tc.mayNotHear) {
			if err := <-errs; !errors.Is(err, nats.ErrPermissionViolation) {
				t.Error(err)
			}
		}
		if len(errs) > 0 {
			t.Error(<-errs)
		}
	}
	_, err = Dial(s.URL, s.Cert, unknown)
	for range 20 { // the server's last word may be lost when it closes the connection
		if errors.Is(err, corral.ErrUnavailable) {
			_, err = Dial(s.URL, s.Cert, unknown)
		}
	}
	if !errors.Is(err, corral.ErrDenied) || !strings.Contains(corral.Hint(err), "corral nodes server-config") {
		t.Errorf("with a key that it does not know: %v, hint %q", err, corral.Hint(err))
	}
	if _, err := Dial(s.URL, strings.Repeat("0", 64), key); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("with another certificate: %v", err)
	}
	if _, err := Dial(s.URL, "", key); !errors.Is(err, corral.ErrDenied) || !strings.Contains(corral.Hint(err), "fingerprint") {
		t.Errorf("with a certificate that nobody knows: %v, hint %q", err, corral.Hint(err))
	}
}

func sameSet(a, b []string) bool {
	n := map[string]int{}
	for _, s := range a {
		n[s]++
	}
	for _, s := range b {
		n[s]--
	}
	for _, k := range n {
		if k != 0 {
			return false
		}
	}
	return true
}

// A server that cannot be used is not, and the error says what to change.
func TestExternalUnusable(t *testing.T) {
	own, gateway := natstest.NewKey(t)
	_, public := natstest.NewKey(t)
	creds := seedFile(t, own)
	config := serverConfig(t, []string{gateway}, User{Key: public, Node: "n1"})
	without := func(subject string) string { return strings.Replace(config, `"`+subject+`"`, `"other"`, 1) }
	for _, tc := range []struct {
		name, config string
		kind         error
		text, hint   string
	}{
		{"small messages", config + "max_payload: 32KB\n", corral.ErrUnavailable, "at most 32768 bytes", "max_payload: 64KB"},
		{"no headers", config + "no_header_support: true\n", corral.ErrUnavailable, "does not support headers", "no_header_support"},
		{"another user", serverConfig(t, []string{public}), corral.ErrDenied, "Authorization", "server-config"},
		{"no right to ask nodes", without("fab.n.*.>"), corral.ErrDenied, "does not let the gateway's user publish on fab.n.", "server-config"},
		{"no right to answer machines", without("fab.paired.*"), corral.ErrDenied, "publish on fab.paired.", "server-config"},
		{"no right to hear nodes", without("fab.gw.*.>"), corral.ErrDenied, "subscribe to fab.gw.", "server-config"},
		{"no right to hear hellos", without("fab.hb.*"), corral.ErrDenied, "subscribe to fab.hb.*", "server-config"},
		{"no right to hear machines", without("fab.pair.*"), corral.ErrDenied, "subscribe to fab.pair.*", "server-config"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := natstest.Start(t, tc.config)
			x := External{URL: s.URL, Creds: creds, Cert: s.Cert}
			quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
			c, err := x.Connect(quiet)
			for range 20 { // as above
				if errors.Is(err, corral.ErrUnavailable) && tc.kind == corral.ErrDenied {
					c, err = x.Connect(quiet)
				}
			}
			if err == nil {
				c.Close()
			}
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) || !strings.Contains(corral.Hint(err), tc.hint) {
				t.Errorf("%v, hint %q", err, corral.Hint(err))
			}
		})
	}
}

// What is configured for a server of somebody else's is checked before anything
// is sent.
func TestExternalInvalid(t *testing.T) {
	key, _ := natstest.NewKey(t)
	creds := seedFile(t, key)
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	nonsense := filepath.Join(t.TempDir(), "nonsense")
	if err := os.WriteFile(nonsense, []byte("SUsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		External
		text string
	}{
		"no address":          {External{Creds: creds}, "no address"},
		"a host":              {External{URL: "nats.example.com:4222", Creds: creds}, "no address"},
		"another protocol":    {External{URL: "https://nats.example.com", Creds: creds}, "begins with none of"},
		"no TLS":              {External{URL: "nats://nats.example.com:4222", Creds: creds}, "without TLS"},
		"no TLS by WebSocket": {External{URL: "tls://a:1, ws://user:secret@192.0.2.1:80", Creds: creds}, "without TLS"},
		"no credentials":      {External{URL: "tls://127.0.0.1:1"}, "no file"},
		"none there":          {External{URL: "tls://127.0.0.1:1", Creds: creds + "x"}, "no such file"},
		"nonsense":            {External{URL: "tls://127.0.0.1:1", Creds: nonsense}, "no key of a user"},
		"an account's key":    {External{URL: "tls://127.0.0.1:1", Creds: seedFile(t, account)}, "no key of a user"},
	} {
		_, err := tc.Connect()
		if !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), tc.text) || corral.Hint(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, hint %q", name, err, corral.Hint(err))
		}
	}
	if _, err := (External{URL: "tls://127.0.0.1:1", Creds: creds}).Connect(); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("where nothing listens: %v", err)
	}
}

func TestServerConfigInvalid(t *testing.T) {
	_, public := natstest.NewKey(t)
	for _, u := range []User{{}, {Key: "U"}, {Key: public + "\n"}, {Key: public, Node: "a.b"}, {Key: public, Node: `"`}} {
		if text, err := ServerConfig(nil, nil, []User{u}); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%+v: %q, %v", u, text, err)
		}
	}
}
