package gateway

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// withNodes is a rig that listens for nodes.
func withNodes(t *testing.T) (*rig, *hub.Hub) {
	t.Helper()
	h, err := hub.Open(hub.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return newRig(t, func(c *Config) { c.Nodes = h }), h
}

// asks has a machine ask, and returns its request.
func asks(t *testing.T, h *hub.Hub, name string) pairing.Request {
	t.Helper()
	_, public := natstest.NewKey(t)
	q, err := h.Registry().Ask(public, netip.MustParseAddr("192.0.2.7"), pairing.Hello{Name: name, OS: "linux", Arch: "arm64", Version: "v1", Features: []string{"x"}, Addresses: []string{"10.0.0.7"}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// as decodes an answer.
func as[T any](a answer) (v T) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	return v
}

func TestNodes(t *testing.T) {
	g, h := withNodes(t)
	if list := as[api.Nodes](g.do("GET", "/v1/nodes", "").is(200)); list.Nodes == nil || len(list.Nodes) != 0 || !slices.Equal(list.Listen, h.Listens()) {
		t.Errorf("%+v", list)
	}
	if j := as[api.NodeJoin](g.do("GET", "/v1/nodes/join", "").is(200)); j.Line != h.Join().Line || j.Command != "corral node --gateway "+j.Line || len(j.Hosts) != 1 {
		t.Errorf("%+v", j)
	}
	one, two := asks(t, h, "one"), asks(t, h, "two")
	got := as[api.NodeRequests](g.do("GET", "/v1/nodes/requests", "").is(200)).Requests
	if len(got) != 2 || got[0].Code != one.Code || got[0].From != "192.0.2.7" || got[0].Claims[0] != "10.0.0.7" || got[0].State != "pending" {
		t.Errorf("%+v", got)
	}
	answer := "/v1/nodes/requests/"
	g.do("POST", answer+"nonsense", `{"decision":"approve"}`).code(404, "not-found")
	g.send(g.careless(), "http://localhost"+answer+one.Code, "POST", `{"decision":"maybe"}`).code(400, "invalid")
	g.do("POST", answer+one.Code, `{"decision":"approve","name":"No Name"}`).code(400, "invalid")
	n := as[api.Node](g.do("POST", answer+strings.ToUpper(one.Code), `{"decision":"approve","labels":{"pool":"gpu"},"by":"alice"}`).is(200))
	if n.ID != one.ID || n.Name != "one" || n.State != api.NodeOffline || n.Labels["pool"] != "gpu" || n.ApprovedBy != "alice" || n.OS != "linux" {
		t.Errorf("%+v", n)
	}
	g.do("POST", answer+one.Code, `{"decision":"reject"}`).code(409, "conflict")
	g.do("POST", answer+two.ID, `{"decision":"reject","by":"bob"}`).is(204)

	for _, ref := range []string{n.ID, n.ID[:5], n.Key, "one"} {
		if got := as[api.Node](g.do("GET", "/v1/nodes/"+ref, "").is(200)); got.ID != n.ID {
			t.Errorf("%s: %+v", ref, got)
		}
	}
	for _, ref := range []string{"two", "..%2fsessions", "%00", strings.Repeat("x", 2000)} {
		g.do("GET", "/v1/nodes/"+ref, "").code(404, "not-found")
		g.do("PATCH", "/v1/nodes/"+ref, `{"name":"x"}`).code(404, "not-found")
		g.do("DELETE", "/v1/nodes/"+ref, "").code(404, "not-found")
	}
	if n = as[api.Node](g.do("PATCH", "/v1/nodes/one", `{"labels":{"pool":null,"zone":"a"}}`).is(200)); len(n.Labels) != 1 || n.Labels["zone"] != "a" {
		t.Errorf("%+v", n)
	}
	if n = as[api.Node](g.do("PATCH", "/v1/nodes/one", `{"name":"seven"}`).is(200)); n.Name != "seven" {
		t.Errorf("%+v", n)
	}
	g.do("PATCH", "/v1/nodes/seven", `{}`).code(400, "invalid")
	g.send(g.careless(), "http://localhost/v1/nodes/seven", "PATCH", `{"id":"x"}`).code(400, "invalid")
	g.do("DELETE", "/v1/nodes/seven", "").code(400, "invalid")
	if n = as[api.Node](g.do("PATCH", "/v1/nodes/seven", `{"revoked":true,"by":"carol"}`).is(200)); n.State != api.NodeRevoked || n.RevokedBy != "carol" {
		t.Errorf("%+v", n)
	}
	g.do("DELETE", "/v1/nodes/seven", "").is(204)
	g.do("GET", "/v1/nodes/seven", "").code(404, "not-found")

	a := g.do("PUT", "/v1/nodes/seven", "")
	if a.status != 405 || a.header.Get("Allow") != "GET, PATCH, DELETE" {
		t.Errorf("%d, Allow: %s", a.status, a.header.Get("Allow"))
	}
	// Over TCP they are behind the token, as all of it.
	g.send(g.tcp, g.url+"/v1/nodes", "GET", "").code(401, "unauthorized")
}

func TestNodeTokens(t *testing.T) {
	g, _ := withNodes(t)
	const tokens = "/v1/nodes/tokens"
	a := g.do("POST", tokens, `{"ttl":"10m","uses":3,"labels":{"pool":"ci"},"by":"alice"}`).is(201)
	made := as[api.MadeNodeToken](a)
	if !strings.HasPrefix(made.Token, "corral-"+made.ID+"-") || made.Left != 3 || time.Until(made.ExpiresAt) > 10*time.Minute || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v", made)
	}
	list := g.do("GET", tokens, "").is(200)
	if got := as[api.NodeTokens](list).Tokens; len(got) != 1 || got[0].ID != made.ID || got[0].By != "alice" || strings.Contains(list.body, made.Token[len("corral-")+9:]) {
		t.Errorf("%s", list.body)
	}
	if strings.Contains(g.log.String(), made.Token) {
		t.Error("the log has the secret")
	}
	g.do("POST", tokens, `{}`).is(201)
	g.do("POST", tokens, `{"ttl":"9000h"}`).code(400, "invalid")
	g.send(g.careless(), "http://localhost"+tokens, "POST", `{"uses":2000}`).code(400, "invalid")
	g.do("DELETE", tokens+"/"+made.ID, "").is(204)
	g.do("DELETE", tokens+"/"+made.ID, "").code(404, "not-found")
}

// A gateway that does not listen for nodes says what to do.
func TestNoNodes(t *testing.T) {
	g := newRig(t, nil)
	for _, rt := range g.server.nodeRoutes() {
		method, path, _ := strings.Cut(rt.pattern, " ")
		a := g.send(g.careless(), "http://localhost"+strings.ReplaceAll(path, "{id}", "x"), method, "{}").code(404, "not-found")
		if !strings.Contains(a.body, "--nodes ADDRESS:PORT") {
			t.Errorf("%s: %s", rt.pattern, a.body)
		}
	}
}
