package hub

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// external is a message server of somebody else's, for a gateway and two machines
// that may ask.
func external(t *testing.T, shared bool) (*External, []nkeys.KeyPair) {
	t.Helper()
	return externalAt(t, shared, 2, func(config string) (url, cert string) {
		if shared {
			config += fmt.Sprintf("jetstream { store_dir: %q }\n", t.TempDir())
		}
		s := natstest.Start(t, config)
		return s.URL, s.Cert
	})
}

// externalAt is one that a function starts, for a gateway and some machines.
func externalAt(t *testing.T, shared bool, count int, start func(config string) (url, cert string)) (*External, []nkeys.KeyPair) {
	t.Helper()
	own, gateway := natstest.NewKey(t)
	machines, asking := make([]nkeys.KeyPair, count), make([]string, count)
	var nodes []api.Node
	for i := range machines {
		machines[i], asking[i] = natstest.NewKey(t)
		nodes = append(nodes, api.Node{Key: asking[i], ID: pairing.ID(asking[i]), Name: fmt.Sprintf("m%d", i)})
	}
	nodes = append(nodes, api.Node{Key: gateway, ID: "gone", State: api.NodeRevoked})
	text, err := ServerConfig([]string{gateway}, shared, nodes, nil)
	if err != nil || strings.Contains(text, "gone") {
		t.Fatalf("%s, %v", text, err)
	}
	url, cert := start(text)
	seed, err := own.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds := filepath.Join(t.TempDir(), "gateway.nk")
	if err := os.WriteFile(creds, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return &External{External: broker.External{URL: url, Creds: creds, Cert: cert}, Shared: shared}, machines
}

// openAnother opens a gateway with the key of one that is open.
func openAnother(t *testing.T, h *Hub) *Hub {
	t.Helper()
	dir := t.TempDir()
	seed, err := os.ReadFile(filepath.Join(h.cfg.Dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, Config{Dir: dir, External: h.cfg.External, Log: h.cfg.Log})
}

// On a server of somebody else's a machine is paired, used and revoked as on an
// own one.
func TestExternal(t *testing.T) {
	x, keys := external(t, false)
	h := open(t, Config{Dir: t.TempDir(), External: x})
	if got := h.Listens(); len(got) != 1 || got[0] != x.URL {
		t.Errorf("%q", got)
	}
	m := newMachine(t, h)
	m.key = keys[0]
	if m.line.Cert != x.Cert || m.line.WebSocket || m.line.URL() != x.URL {
		t.Errorf("%+v", m.line)
	}
	n := m.pair(h, api.NodeAnswer{Name: "seven"})
	m.serve(n.ID)
	if r := run(t, selects(t, h, "seven")); r.Exit.Code != 3 {
		t.Errorf("%+v", r)
	}
	if n, err := h.Change(t.Context(), "seven", api.NodeChange{Revoked: true}); err != nil || n.State != api.NodeRevoked {
		t.Errorf("%+v, %v", n, err)
	}
	if _, _, err := h.Nodes().Select(t.Context(), "seven"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("selecting one that was revoked: %v", err)
	}
	shut(t, h)
	kept, err := Kept(h.cfg.Dir)
	if err != nil || len(kept) != 1 || kept[0].ID != n.ID || kept[0].State != api.NodeRevoked {
		t.Errorf("%+v, %v", kept, err)
	}
	if kept, err := Kept(t.TempDir()); err != nil || len(kept) != 0 {
		t.Errorf("%+v, %v", kept, err)
	}
}

// Two gateways with the same key share their nodes: what is approved at one is a
// node of both, and what is revoked at one is none of either.
func TestShared(t *testing.T) {
	x, keys := external(t, true)
	one := open(t, Config{Dir: t.TempDir(), External: x})
	two := openAnother(t, one)
	if one.Join().Line != two.Join().Line {
		t.Errorf("%s and %s", one.Join().Line, two.Join().Line)
	}
	m := newMachine(t, one)
	m.key = keys[0]
	n := m.pair(two, api.NodeAnswer{Name: "seven"})
	m.serve(n.ID)
	for _, h := range []*Hub{one, two} {
		if r := run(t, selects(t, h, "seven")); r.Exit.Code != 3 || r.Info.Node != "seven" {
			t.Errorf("%+v", r)
		}
	}
	// One that begins knows it before it does anything, so that nothing that was
	// approved for it is thought to be for none; and all say that it is online.
	late := openAnother(t, one)
	if _, ok := late.Registry().Authorize(n.Key); !ok {
		t.Error("a gateway that begins does not know the node")
	}
	for _, h := range []*Hub{late, one, two} {
		list := h.List(t.Context()).Nodes
		if len(list) != 1 || list[0].State != api.NodeOnline || list[0].Name != "seven" {
			t.Errorf("%+v", list)
		}
	}
	// What is asked at one is answered at the other.
	a, b := desk(t, one), desk(t, two)
	rec, err := a.Ask(t.Context(), approvalRequest("uptime", n.ID))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { _, err := b.Get("", rec.ID); return err })
	if rec, err = b.Answer(t.Context(), rec.ID, approval.Answer{Decision: approval.AllowOnce, By: "anna"}); err != nil || !b.Usable(rec) || b.Own(rec) {
		t.Errorf("%+v, %v", rec, err)
	}
	if rec, err := a.Wait(t.Context(), rec.ID); err != nil || rec.State != approval.Allowed {
		t.Errorf("%+v, %v", rec, err)
	}

	if _, err := one.Change(t.Context(), "seven", api.NodeChange{Revoked: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, _, err := two.Nodes().Select(t.Context(), "seven")
		if !errors.Is(err, corral.ErrUnavailable) {
			return fmt.Errorf("it is a node of the other gateway still: %w", err)
		}
		return nil
	})
	// One with another key has nothing to do with them.
	began := time.Now()
	if _, err := Open(Config{Dir: t.TempDir(), External: x}); err == nil || time.Since(began) > patience {
		t.Errorf("a gateway with a key of its own: %v after %v", err, time.Since(began))
	}
}

// A gateway keeps its name, and a copy of its directory is another gateway.
func TestGatewayName(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	first, err := ownName(dir)
	if err != nil || corral.ValidateID(first) != nil {
		t.Fatalf("%q, %v", first, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, nameFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"a copy": text, "nothing": nil, "nonsense": []byte("*.>\n"), "long": []byte(strings.Repeat("x", 10_000))} {
		if err := os.WriteFile(filepath.Join(copied, nameFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := ownName(copied)
		if err != nil || second == first || corral.ValidateID(second) != nil {
			t.Errorf("%s: %q, %v", name, second, err)
		}
		if again, err := ownName(copied); err != nil || again != second {
			t.Errorf("%s: %q and then %q, %v", name, second, again, err)
		}
	}
	if again, err := ownName(dir); err != nil || again != first {
		t.Errorf("%q and then %q, %v", first, again, err)
	}
}

// desk is the one of a gateway.
func desk(t *testing.T, h *Hub) *approval.Desk {
	t.Helper()
	store, name, err := h.Approvals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := ownName(h.cfg.Dir)
	if err != nil || again != name || name == "" {
		t.Errorf("it is called %q, and then %q, %v", name, again, err)
	}
	d, err := approval.OpenDesk(approval.Options{Store: store, Gateway: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func approvalRequest(command, node string) approval.Request {
	r := approval.Request{Agent: "main", Host: corral.HostNode, Node: "seven", Command: policy.Request{Command: command, Dir: "/"}}
	r.Binding = approval.BindOnNode(r.Command, nil, node, approval.Binding{}, "sum")
	return r
}

func TestExternalInvalid(t *testing.T) {
	x, _ := external(t, false)
	for _, cfg := range []Config{
		{}, {Listen: "127.0.0.1:0", External: x}, {WebSocket: "127.0.0.1:0", External: x},
		{External: &External{External: broker.External{URL: "nonsense", Creds: x.Creds}}},
		{External: &External{External: broker.External{URL: x.URL, Creds: "/nonexistent"}}},
		{External: x, Advertise: "nonsense"},
	} {
		cfg.Dir = t.TempDir()
		if _, err := Open(cfg); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := ServerConfig([]string{"nonsense"}, false, nil, nil); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
}

func TestExternalLines(t *testing.T) {
	h := &Hub{cfg: Config{External: &External{External: broker.External{URL: "wss://a.example:443,tls://b.example:4222, tls://c.example:4222", Cert: "AB"}}}}
	l := h.Lines()
	if len(l) != 2 || !l[0].WebSocket || l[0].Hosts[0] != "a.example:443" || l[1].WebSocket || strings.Join(l[1].Hosts, " ") != "b.example:4222 c.example:4222" || l[1].Cert != "ab" {
		t.Errorf("%+v", l)
	}
	h.cfg.Advertise = "d.example:1"
	if l := h.Lines(); len(l) != 1 || l[0].Hosts[0] != "d.example:1" {
		t.Errorf("%+v", l)
	}
}
