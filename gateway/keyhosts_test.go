package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// hostOf is the host that a key needs for a route, whatever its role; "all" for what is not
// for a key that is limited to some.
func hostOf(pattern string) string {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		path = pattern
	}
	path, inSandbox := strings.CutPrefix(path, "/v1/sandboxes")
	switch {
	case strings.HasPrefix(path, "/v1/nodes/{name}/ports/"):
		return "node"
	case strings.HasPrefix(path, "/v1/keys"), pattern == "PATCH /v1/config":
		return "all"
	case inSandbox && method == http.MethodGet && (path == "" || path == "/{name}" || path == "/{name}/stats" || path == "/{name}/log"):
		return ""
	case inSandbox:
		return "sandbox"
	}
	return ""
}

// A key of each host against each route: files and ports are for a key that may run commands
// there, and for no other.
func TestHostsRoutes(t *testing.T) {
	g, keys := keyRig(t)
	for _, host := range []string{"sandbox", "gateway", "node"} {
		key := g.key(keys, api.NewKey{Name: host, Role: "admin", Hosts: []string{host}})
		for _, rt := range g.server.table() {
			method, path := requestOf(rt.pattern, "x")
			a := g.as(key, method, path, "")
			need := hostOf(rt.pattern)
			if refused := a.status == 403 && strings.Contains(a.body, "the key"); refused != (need != "" && need != host) {
				t.Errorf("by a key for %s: %s: %d %s", host, rt.pattern, a.status, a.body)
			}
		}
	}
}

// Clients of E2B have sandboxes alone: a key for another host is of no use to them.
func TestHostsRoutesE2B(t *testing.T) {
	g := newE2BRig(t)
	box := g.create(g.newKey("maker", access.Agent, "e2b"), "{}")
	other := g.key(g.keys, api.NewKey{Name: "other", Role: "admin", Agents: []string{"e2b"}, Hosts: []string{"gateway", "node"}})
	for _, rt := range g.server.e2bRoutes().control {
		if strings.HasPrefix(rt.pattern, "PUT /templates") || strings.Contains(rt.pattern, "/volumecontent/") { // by a link that was signed, or a token
			continue
		}
		method, path := requestOf(rt.pattern, box.ID)
		if a := g.call(method, path, "", "X-API-KEY", other); a.status != 403 {
			t.Errorf("%s: %d %s", rt.pattern, a.status, a.body)
		}
	}
	own := g.key(g.keys, api.NewKey{Name: "own", Role: "agent", Agents: []string{"e2b"}, Hosts: []string{"sandbox"}})
	box = g.create(own, "{}")
	g.call("GET", "/files?path=none", "", box.at(e2b.EnvdPort)...).is(404)
}

// By the host name of a port a sandbox is reached as by its route.
func TestHostsPortHosts(t *testing.T) {
	g, c, keys := hostRig(t, nil)
	url, _ := boxURL(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in") })
	for host, want := range map[string]int{"sandbox": 200, "gateway": 403, "node": 403} {
		key := g.key(keys, api.NewKey{Name: host, Role: "agent", Hosts: []string{host}})
		if a := g.send(c, url+"/", "GET", "", "Authorization", "Bearer "+key); a.status != want {
			t.Errorf("%s: %d %s, want %d", host, a.status, a.body, want)
		}
	}
}

// Input is as good as a command: a shell on the gateway that another started takes none by
// a key for sandboxes, nor signals. What it wrote can be read.
func TestHostsSessions(t *testing.T) {
	g, keys := keyRig(t)
	key := g.key(keys, api.NewKey{Name: "boxed", Role: "agent", Agents: []string{"main"}, Hosts: []string{"sandbox"}})
	here := g.key(keys, api.NewKey{Name: "here", Role: "agent", Agents: []string{"main"}, Hosts: []string{"gateway"}})
	g.start("cat", `,"id":"s","stdin":true`)
	g.start("sleep", `,"id":"t","tty":{}`)
	for _, path := range []string{"s/stdin", "s/stdin?eof", "s/signal", "t/resize", "s/kill"} {
		body := map[string]string{"s/stdin": "echo stolen\n", "s/signal": `{"signal":"USR1"}`, "t/resize": `{"rows":24,"cols":80}`}[path]
		g.as(key, "POST", "/v1/sessions/"+path, body).is(403)
	}
	g.as(key, "DELETE", "/v1/sessions/s?force=true", "").is(403)
	for _, path := range []string{"", "/output", "/log", "/wait?timeout=1ms"} {
		g.as(key, "GET", "/v1/sessions/s"+path, "").is(200)
	}
	if st := g.do("GET", "/v1/sessions/s", "").is(200).decoded(); st.Ended() || st.OutputBytes != 0 {
		t.Errorf("it has had input or a signal: %+v", st)
	}
	g.as(here, "POST", "/v1/sessions/s/stdin", "mine\n").is(200)
	g.as(here, "POST", "/v1/sessions/s/kill", "").is(200)
	g.as(key, "DELETE", "/v1/sessions/s", "").is(204) // nothing runs any more
}

// A key that has expired opens nothing by the tokens of sandboxes and volumes that were made
// with it.
func TestE2BExpired(t *testing.T) {
	g := newE2BRig(t)
	key := g.key(g.keys, api.NewKey{Name: "short", Role: "agent", Agents: []string{"e2b"}, TTL: api.Duration(3 * time.Second)})
	box := g.create(key, "{}")
	var volume struct{ VolumeID, Token string }
	if err := json.Unmarshal([]byte(g.call("POST", "/volumes", `{"name":"v"}`, "X-API-KEY", key).is(201).body), &volume); err != nil {
		t.Fatal(err)
	}
	file := func() answer { return g.call("GET", "/files?path=none", "", box.at(e2b.EnvdPort)...) }
	list := func() answer {
		return g.call("GET", "/volumecontent/"+volume.VolumeID+"/dir?path=/", "", "Authorization", "Bearer "+volume.Token)
	}
	file().is(404)
	list().is(200)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := g.keys.Check(key); err != nil {
			break
		} else if time.Since(began) > 20*time.Second {
			t.Fatal("it does not expire")
		}
	}
	for what, a := range map[string]answer{"a file": file(), "a volume": list(), "a port": g.call("GET", "/", "", box.at("8080")...)} {
		if a.status != 401 && a.status != 403 {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
}

// A key that opens as many streams as it can leaves room for others, and each of those for
// the next.
func TestStreamsOfOneKey(t *testing.T) {
	keys, err := access.Open(filepath.Join(testdir.New(t), api.KeysFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	g := newRig(t, func(c *Config) { c.Keys, c.MaxFollowers = keys, 16 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func(key string) (n int) {
		for range 16 {
			req, err := http.NewRequestWithContext(ctx, "GET", g.url+"/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := g.tcp.Transport.(validating).next.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			if resp.StatusCode == 200 {
				n++
			}
		}
		return n
	}
	for i, want := range []int{8, 4, 2} {
		if n := open(g.key(keys, api.NewKey{Name: fmt.Sprint("k", i), Role: "viewer"})); n != want {
			t.Errorf("key %d has %d streams, want %d", i, n, want)
		}
	}
	if n := open(testToken); n != 2 { // all that is left
		t.Errorf("the platform has %d", n)
	}
	cancel()
}
