package join

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// house is a gateway to which machines come.
type house struct {
	t        *testing.T
	key      nkeys.KeyPair
	public   string
	server   *broker.Server
	registry *pairing.Registry
	changes  chan pairing.Change
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, changes: make(chan pairing.Change, 100)}
	h.key, h.public = natstest.NewKey(t)
	var desk *Desk
	var err error
	if h.registry, err = pairing.Open(pairing.Options{Dir: t.TempDir(), GatewayKey: h.public, Changed: func(c pairing.Change) {
		desk.Changed(c)
		h.changes <- c
	}}); err != nil {
		t.Fatal(err)
	}
	if h.server, err = broker.Start(broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Authorize: h.registry.Authorize}); err != nil {
		t.Fatal(err)
	}
	conn, err := h.server.Connect(fabric.ConnectOptions(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	if desk, err = Open(Config{Conn: linktest.Over(t, conn), Key: h.key, Registry: h.registry, From: h.server.From}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(desk.Close(), h.registry.Close()); err != nil {
			t.Error(err)
		}
		conn.Close()
		h.server.Close()
	})
	return h
}

// machine connects with a key.
func (h *house) machine(key nkeys.KeyPair) *nats.Conn {
	h.t.Helper()
	pinned, err := broker.Pinned(h.server.Fingerprint(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	conn, err := nats.Connect("tls://"+h.server.Addr().String(), append(fabric.ConnectOptions(nil), pinned...)...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(conn.Close)
	return conn
}

func (h *house) await(e pairing.Event) pairing.Change {
	h.t.Helper()
	for {
		select {
		case c := <-h.changes:
			if c.Event == e {
				return c
			}
		case <-time.After(10 * time.Second):
			h.t.Fatalf("nothing was %s", e)
		}
	}
}

type result struct {
	v   Verdict
	err error
}

func (h *house) request(o Options) (<-chan result, <-chan Verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	h.t.Cleanup(cancel)
	done, shown := make(chan result, 1), make(chan Verdict, 10)
	o.Gateway, o.Shown = h.public, func(v Verdict) { shown <- v }
	if o.Conn == nil {
		o.Conn = linktest.Over(h.t, h.machine(o.Key))
	}
	go func() {
		v, err := Request(ctx, o)
		done <- result{v, err}
	}()
	return done, shown
}

// Both sides show the same code, and an approval is told at once.
func TestApprove(t *testing.T) {
	h := newHouse(t)
	key, public := natstest.NewKey(t)
	done, shown := h.request(Options{Key: key, Hello: pairing.Hello{Name: "Builder", OS: "linux"}})
	asked := h.await(pairing.EventAsked)
	if v := <-shown; v.State != pairing.Pending || v.Code != asked.Request.Code || v.Code == "" || v.ID != pairing.ID(public) {
		t.Errorf("shown: %+v, asked: %+v", v, asked.Request)
	}
	if asked.Request.From != "127.0.0.1" {
		t.Errorf("it asks from %q", asked.Request.From)
	}
	began := time.Now()
	if _, err := h.registry.Approve(asked.Request.Code, pairing.Approval{By: "test", Name: "builder-7"}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || r.v.State != pairing.Approved || r.v.Name != "builder-7" || time.Since(began) > Again/2 {
		t.Errorf("%+v after %v", r, time.Since(began))
	}
	// Asking again is told so, and where it was seen is kept.
	done, _ = h.request(Options{Key: key, Hello: pairing.Hello{Name: "Builder", Version: "2"}})
	if r := <-done; r.err != nil || r.v.State != pairing.Approved {
		t.Errorf("again: %+v", r)
	}
	if n, err := h.registry.Node("builder-7"); err != nil || n.Version != "2" || !slices.Equal(n.Addresses, []string{"127.0.0.1"}) {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestReject(t *testing.T) {
	h := newHouse(t)
	key, _ := natstest.NewKey(t)
	done, _ := h.request(Options{Key: key})
	if err := h.registry.Reject(h.await(pairing.EventAsked).Request.Code, "test"); err != nil {
		t.Fatal(err)
	}
	if r := <-done; !errors.Is(r.err, corral.ErrDenied) {
		t.Errorf("%+v", r)
	}
}

// A setup token pairs without anybody, once.
func TestToken(t *testing.T) {
	h := newHouse(t)
	token, _, err := h.registry.NewToken(time.Hour, 1, map[string]string{"pool": "gpu"}, "test")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []error{nil, corral.ErrDenied} {
		key, _ := natstest.NewKey(t)
		done, _ := h.request(Options{Key: key, Token: token})
		if r := <-done; !errors.Is(r.err, want) || want == nil && r.v.State != pairing.Approved {
			t.Errorf("%d: %+v", n, r)
		}
	}
	key, _ := natstest.NewKey(t)
	done, _ := h.request(Options{Key: key, Token: "corral-nonsense"})
	if r := <-done; !errors.Is(r.err, corral.ErrInvalid) {
		t.Errorf("%+v", r)
	}
}

// What the gateway has not signed for this machine and this ask means nothing.
func TestForgedVerdicts(t *testing.T) {
	h := newHouse(t)
	key, public := natstest.NewKey(t)
	other, _ := natstest.NewKey(t)
	conn, err := h.server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	done, shown := h.request(Options{Key: key})
	code := (<-shown).Code
	yes := Verdict{Version: Version, Nonce: "x", State: pairing.Approved}
	forged := func(signer nkeys.KeyPair, node string) []byte {
		b, err := yes.encode(signer, node)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	_, heard := fabric.PairSubjects(public)
	for _, b := range [][]byte{
		nil, []byte("x"), make([]byte, 9000), []byte(strings.Repeat("x", sigLen) + `{"v":1,"state":"approved"}`),
		forged(other, public),   // of another gateway
		forged(h.key, h.public), // for another machine
		forged(h.key, public),   // about another ask
	} {
		if err := conn.Publish(heard, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-done:
		t.Errorf("a machine believes %+v", r)
	case <-time.After(200 * time.Millisecond):
	}
	if _, err := h.registry.Approve(code, pairing.Approval{By: "test"}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil {
		t.Errorf("%+v", r)
	}
}

// What machines send is bounded and read with care.
func TestHostileAsks(t *testing.T) {
	h := newHouse(t)
	key, public := natstest.NewKey(t)
	conn := h.machine(key)
	where, heard := fabric.PairSubjects(public)
	sub, err := conn.SubscribeSync(heard)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		ask  string
		want string // code of the error; empty: no answer at all
	}{
		"nothing":        {"", ""},
		"no JSON":        {"{", ""},
		"no nonce":       {`{"v":1}`, ""},
		"too long":       {`{"v":1,"nonce":"n","proof":"` + strings.Repeat("x", maxMessage) + `"}`, ""},
		"long proof":     {`{"v":1,"nonce":"n","proof":"` + strings.Repeat("x", 300) + `"}`, ""},
		"future":         {`{"v":2,"nonce":"n"}`, "unavailable"},
		"false proof":    {`{"v":1,"nonce":"n","proof":"aaaaaaaa.` + strings.Repeat("A", 43) + `"}`, "denied"},
		"a strange name": {`{"v":1,"nonce":"n","hello":{"Name":"` + strings.Repeat("x", 2000) + `"}}`, "invalid"},
	} {
		if err := errors.Join(conn.Publish(where, []byte(tc.ask)), conn.Flush()); err != nil {
			t.Fatal(err)
		}
		wait := 5 * time.Second
		if tc.want == "" {
			wait = 50 * time.Millisecond
		}
		m, err := sub.NextMsg(wait)
		if tc.want == "" {
			if err == nil {
				t.Errorf("%s: answered with %q", name, m.Data)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v, err := parseVerdict(m.Data, h.public, public); err != nil || v.Error == nil || string(v.Error.Code) != tc.want || v.Nonce != "n" {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	if n := len(h.registry.Nodes()); n > 0 {
		t.Errorf("%d nodes", n)
	}
}

func TestLine(t *testing.T) {
	_, key := natstest.NewKey(t)
	cert := strings.Repeat("0a", 32)
	for _, l := range []Line{
		{Hosts: []string{"gw.example.com:7422"}, Key: key, Cert: cert},
		{Hosts: []string{"10.0.0.1:7422", "[2001:db8::1]:7422"}, Key: key, Cert: cert},
		{Hosts: []string{"gw:443"}, WebSocket: true, Key: key},
	} {
		got, err := ParseLine(" " + l.String() + "\n")
		if err != nil || got.String() != l.String() || !slices.Equal(got.Hosts, l.Hosts) || got.Cert != l.Cert || got.WebSocket != l.WebSocket {
			t.Errorf("%s: %+v, %v", l, got, err)
		}
	}
	if got, want := (Line{Hosts: []string{"a:1", "b:2"}, WebSocket: true}).URL(), "wss://a:1,wss://b:2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, s := range []string{
		"", "gw:7422", "nats://gw:7422/" + key + "/" + cert, "corral://gw:7422", "corral://gw:7422/" + key, "corral://gw/" + key + "/" + cert,
		"corral://:7422/" + key + "/" + cert, "corral://gw:0/" + key + "/" + cert, "corral://gw:99999/" + key + "/" + cert,
		"corral://u@gw:1/" + key + "/" + cert, "corral://gw:1/X" + key[1:] + "/" + cert, "corral://gw:1/" + key + "/" + cert[1:],
		"corral://gw:1/" + key + "/" + strings.ToUpper(cert), "corral://gw:1,/" + key + "/system", "corral://" + strings.Repeat("a", 3000),
	} {
		if l, err := ParseLine(s); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%q: %+v, %v", s, l, err)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("corral://gw:1,[::1]:2/UBPLOYDDEJ36JKKK4D7OJQG3QRQXLNKPZN5DPS2HUBSXX76HLK77ZFK2/system")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLine(s)
		if err != nil {
			return
		}
		if again, err := ParseLine(l.String()); err != nil || again.String() != l.String() {
			t.Errorf("%q: %v, %v", s, again, err)
		}
	})
}

func FuzzAsk(f *testing.F) {
	f.Add([]byte(`{"v":1,"nonce":"n","hello":{"Name":"x"},"proof":"p"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parseAsk(b); err == nil && (a.Nonce == "" || len(b) > maxMessage) {
			t.Errorf("%+v", a)
		}
	})
}

func FuzzVerdict(f *testing.F) {
	key, public := natstest.NewKey(f)
	b, err := Verdict{Version: 1, Nonce: "n"}.encode(key, public)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, got []byte) {
		if v, err := parseVerdict(got, public, public); err == nil && string(got) != string(b) {
			t.Errorf("a verdict that nobody signed: %+v", v)
		}
	})
}

// A machine that asks all the time is heard now and then, and one line says so.
func TestAsksTooOften(t *testing.T) {
	h := newHouse(t)
	key, public := natstest.NewKey(t)
	conn := h.machine(key)
	ask, answer := fabric.PairSubjects(public)
	answers, err := conn.SubscribeSync(answer)
	if err != nil {
		t.Fatal(err)
	}
	b, err := encodeAsk(Ask{Version: Version, Nonce: "n", Hello: pairing.Hello{Name: "flood"}})
	if err != nil {
		t.Fatal(err)
	}
	const asked = 2000
	for range asked {
		if err := conn.Publish(ask, b); err != nil {
			t.Fatal(err)
		}
	}
	heard := 0
	for ; ; heard++ {
		if _, err := answers.NextMsg(2 * time.Second); err != nil {
			break
		}
	}
	if heard < 1 || heard > asked/10 {
		t.Errorf("%d of %d asks were answered", heard, asked)
	}
	// Others are not kept from it.
	other, _ := natstest.NewKey(t)
	_, shown := h.request(Options{Key: other, Hello: pairing.Hello{Name: "other"}})
	if v := <-shown; v.State != pairing.Pending {
		t.Errorf("%+v", v)
	}
}
