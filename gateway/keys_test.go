package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/internal/test/testdir"
)

var update = flag.Bool("update", false, "write the table in docs/reference/access.md")

// keyRig is a gateway with keys.
func keyRig(t testing.TB) (*rig, *access.Store) {
	t.Helper()
	keys, err := access.Open(filepath.Join(testdir.New(t), api.KeysFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	g := newRig(t, func(c *Config) {
		c.Keys = keys
		c.E2B = noE2B(t, keys)
		c.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, keys.Grant(r.Header.Get(api.HeaderKey)).Name, " ", r.Header.Get(api.HeaderAgent))
		})
	})
	return g, keys
}

func (g *rig) key(keys *access.Store, n api.NewKey) string {
	g.t.Helper()
	made, err := keys.Create(n)
	if err != nil {
		g.t.Fatal(err)
	}
	return made.Secret
}

// as sends a request by a key.
func (g *rig) as(key, method, path, body string, header ...string) answer {
	g.t.Helper()
	plain := &http.Client{Transport: g.tcp.Transport.(validating).next}
	return g.send(plain, g.url+path, method, body, append(header, "Authorization", "Bearer "+key)...)
}

const accessDoc, beginTable, endTable = "../docs/reference/access.md", "<!-- routes: go test ./gateway -run RouteTable -update -->\n", "<!-- end of routes -->\n"

// Every route says what it needs, and the documentation says the same.
func TestRouteTable(t *testing.T) {
	g, _ := keyRig(t)
	var text strings.Builder
	text.WriteString("| route | right |")
	for _, r := range access.Roles {
		fmt.Fprintf(&text, " %s |", r)
	}
	text.WriteString(" for all agents only | host |\n|---|---|" + strings.Repeat("---|", len(access.Roles)+2) + "\n")
	table := g.server.table()
	slices.SortFunc(table, func(a, b route) int {
		return strings.Compare(a.pattern[strings.Index(a.pattern, "/"):]+a.pattern, b.pattern[strings.Index(b.pattern, "/"):]+b.pattern)
	})
	planes := g.server.e2bRoutes()
	for _, of := range []struct {
		name   string
		routes []route
	}{{"E2B: ", planes.control}, {"E2B, in a sandbox: ", planes.inside}, {"E2B, a port of a sandbox: ", planes.ports}} {
		for _, rt := range of.routes {
			rt.pattern = of.name + rt.pattern
			table = append(table, rt)
		}
	}
	for _, rt := range table {
		if rt.right == "" || len(access.With(rt.right)) == 0 {
			t.Errorf("%s does not say which right it needs", rt.pattern)
		}
		fmt.Fprintf(&text, "| `%s` | %s |", rt.pattern, rt.right)
		for _, r := range access.Roles {
			text.WriteString(mark(r.Has(rt.right)))
		}
		text.WriteString(strings.TrimSuffix(mark(rt.whole)+" "+string(rt.host), " ") + " |\n")
	}
	doc, err := os.ReadFile(accessDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), beginTable)
	_, after, ok2 := strings.Cut(rest, endTable)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", accessDoc)
	}
	want := before + beginTable + text.String() + endTable + after
	if *update {
		if err := os.WriteFile(accessDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(doc) {
		t.Errorf("the table in %s is old: go test ./gateway -run RouteTable -update", accessDoc)
	}
}

func mark(yes bool) string {
	if yes {
		return " yes |"
	}
	return " |"
}

// A key of each role against each route, of all agents and of some.
func TestRolesRoutes(t *testing.T) {
	g, keys := keyRig(t)
	for _, role := range access.Roles {
		for _, agents := range [][]string{nil, {"mine-*"}} {
			key := g.key(keys, api.NewKey{Name: fmt.Sprint(role, agents), Role: string(role), Agents: agents})
			for _, rt := range g.server.table() {
				method, path := requestOf(rt.pattern, "x")
				a := g.as(key, method, path, "", api.HeaderAgent, "mine-1")
				refused := a.status == 403 && strings.Contains(a.body, "the key")
				if want := !role.Has(rt.right) || rt.whole && agents != nil; refused != want {
					t.Errorf("%s of %v: %s: %d %s, refused is to be %v", role, agents, rt.pattern, a.status, a.body, want)
				}
				if a.status == 401 || a.status >= 500 && a.status != 501 {
					t.Errorf("%s of %v: %s: %d %s", role, agents, rt.pattern, a.status, a.body)
				}
			}
		}
	}
}

// The same by the clients of E2B: their control plane takes the same keys. A sandbox's own
// token opens the sandbox, whose role is that of the key that made it.
func TestRolesRoutesE2B(t *testing.T) {
	g := newE2BRig(t)
	routes := g.server.e2bRoutes().control
	call := func(rt route, key string) (string, answer) {
		method, path := requestOf(rt.pattern, "x")
		return rt.pattern, g.call(method, path, "{", "X-API-KEY", key)
	}
	for _, role := range access.Roles {
		key := g.newKey(string(role), role, "e2b")
		for _, rt := range routes {
			if strings.HasPrefix(rt.pattern, "PUT ") || strings.Contains(rt.pattern, "/volumecontent/") { // by a link that was signed, or a token
				continue
			}
			pattern, a := call(rt, key)
			if refused := a.status == 403; refused != !role.Has(rt.right) || a.status == 401 || a.status >= 500 && a.status != 501 {
				t.Errorf("%s: %s: %d %s", role, pattern, a.status, a.body)
			}
		}
	}
	gone := g.newKey("gone", access.Admin)
	if err := g.keys.Revoke("gone"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{gone, gone[:len(gone)-9] + "x" + gone[len(gone)-8:], "wrong"} {
		for _, rt := range routes {
			if pattern, a := call(rt, key); a.status != 401 && a.status != 429 && a.status != 403 || a.status == 403 && !strings.HasPrefix(pattern, "PUT ") {
				t.Errorf("a key that is none: %s: %d %s", pattern, a.status, a.body)
			}
		}
	}
}

// What other tenants have is not there.
func TestTenants(t *testing.T) {
	g, keys := keyRig(t)
	ours := g.key(keys, api.NewKey{Name: "ours", Role: "operator", Agents: []string{"ours"}})
	theirs := g.key(keys, api.NewKey{Name: "theirs", Role: "operator", Agents: []string{"theirs-*"}})
	g.as(ours, "POST", "/v1/sessions", `{"id":"one","command":"sleep"}`).is(201) // the header is not needed: it has one agent
	g.as(theirs, "POST", "/v1/sessions", `{"id":"two","command":"sleep"}`, api.HeaderAgent, "theirs-1").is(201)
	g.as(theirs, "POST", "/v1/sessions", `{"command":"sleep"}`).code(403, "denied")
	g.as(theirs, "POST", "/v1/sessions", `{"command":"sleep"}`, api.HeaderAgent, "ours").code(403, "denied")
	for _, path := range []string{"", "/log", "/output", "/wait?timeout=1ms"} {
		g.as(theirs, "GET", "/v1/sessions/one"+path, "", api.HeaderAgent, "theirs-1").code(404, "not-found")
		g.as(theirs, "GET", "/v1/sessions/one"+path, "", api.HeaderAgent, "ours").code(403, "denied")
	}
	for key, want := range map[string]string{ours: "one", theirs: "two"} {
		var list api.Sessions[struct {
			ID string `json:"sessionId"`
		}]
		if err := json.Unmarshal([]byte(g.as(key, "GET", "/v1/sessions?agent=*", "").is(200).body), &list); err != nil || len(list.Sessions) != 1 || list.Sessions[0].ID != want {
			t.Errorf("%+v, want %s (%v)", list, want, err)
		}
	}
	g.as(theirs, "POST", "/v1/sessions/two/kill", "", api.HeaderAgent, "theirs-1").is(200)
	g.as(ours, "POST", "/v1/sessions/one/kill", "").is(200)
	for key, other := range map[string]string{ours: "two", theirs: "one"} {
		if body := g.as(key, "GET", "/v1/events?agent=*&once&after=0", "").is(200).body; strings.Contains(body, other) {
			t.Errorf("events of another: %s", body)
		}
	}
	if got := g.as(ours, "POST", "/mcp", "{}", api.HeaderKey, "owner").is(200).body; got != "ours ours" {
		t.Errorf("MCP is by %q", got)
	}
	g.as(theirs, "POST", "/mcp", "{}", api.HeaderAgent, "ours").code(403, "denied")
	a := g.as("wrong", "POST", "/mcp", "{}").code(401, "unauthorized")
	_, where, _ := strings.Cut(a.header.Get("WWW-Authenticate"), `resource_metadata="`+g.url)
	where, _, _ = strings.Cut(where, `"`)
	if body := g.as("", "GET", where, "").is(200).body; !strings.Contains(body, `"resource":"`+g.url+`/mcp"`) {
		t.Errorf("%q leads to %s", a.header.Get("WWW-Authenticate"), body)
	}
	if log := g.log.String(); strings.Contains(log, ours[len("corralkey_"):]) || !strings.Contains(log, "key=ours") {
		t.Error("the log has a secret, or does not say whose requests they were")
	}
}

// A quota of sessions holds to the unit, and one of requests says when to come back.
func TestQuotas(t *testing.T) {
	g, keys := keyRig(t)
	key := g.key(keys, api.NewKey{Name: "few", Role: "agent", Agents: []string{"few-*"}, Quota: api.Quota{MaxSessions: 3}})
	begun := make(chan int)
	for i := range 12 {
		go func() {
			begun <- g.as(key, "POST", "/v1/sessions", `{"command":"sleep"}`, api.HeaderAgent, fmt.Sprintf("few-%d", i%2)).status
		}()
	}
	count := map[int]int{}
	for range 12 {
		count[<-begun]++
	}
	if count[201] != 3 || count[429] != 9 {
		t.Errorf("%v, want three that began", count)
	}
	g.do("POST", "/v1/sessions", `{"command":"sleep"}`, api.HeaderAgent, "few-0").is(201) // the owner has no quota
	if text := g.do("GET", "/metrics", "").is(200).body; !strings.Contains(text, `corral_key_requests_total{answer="limited",key="few"} 9`) ||
		!strings.Contains(text, `corral_key_requests_total{answer="served",key="few"} 3`) {
		t.Errorf("metrics: %s", text)
	}
	slow := g.key(keys, api.NewKey{Name: "slow", Role: "viewer", Quota: api.Quota{Rate: 0.01}})
	g.as(slow, "GET", "/v1/sessions", "").is(200)
	if a := g.as(slow, "GET", "/v1/sessions", "").code(429, "too-many"); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
}

// Revoking a key ends what is open by it, and kills nothing.
func TestRevoke(t *testing.T) {
	g, keys := keyRig(t)
	key := g.key(keys, api.NewKey{Name: "gone", Role: "agent"})
	g.as(key, "POST", "/v1/sessions", `{"id":"s","command":"sleep"}`).is(201)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error)
	for _, path := range []string{"/v1/sessions/s/log?follow", "/v1/events", "/v1/sessions/s/wait?timeout=1m"} {
		req, err := http.NewRequestWithContext(ctx, "GET", g.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		started := make(chan bool, 1)
		go func() {
			resp, err := (&http.Client{Transport: g.tcp.Transport.(validating).next}).Do(req)
			started <- true
			if err == nil {
				_, err = bufio.NewReader(resp.Body).WriteTo(discard{})
				resp.Body.Close()
			}
			ended <- err
		}()
		if !strings.Contains(path, "wait") {
			<-started
		}
	}
	time.Sleep(100 * time.Millisecond) // wait does not say when it has begun
	begin := time.Now()
	g.do("DELETE", "/v1/keys/gone", "").is(204)
	for range 3 {
		<-ended // by an end or by a cut
	}
	if took := time.Since(begin); ctx.Err() != nil || took > time.Second {
		t.Errorf("it took %v until what was open by a revoked key had ended", took)
	}
	if st := g.do("GET", "/v1/sessions/s", "").is(200).decoded(); st.Ended() {
		t.Errorf("the command was ended: %+v", st)
	}
	g.as(key, "GET", "/v1/sessions", "").code(401, "unauthorized")
}

// Input that is sent as it is typed ends with its key: nothing more reaches the command. Other
// input does.
func TestRevokeStdin(t *testing.T) {
	g, keys := keyRig(t)
	key := g.key(keys, api.NewKey{Name: "gone", Role: "agent"})
	id := g.start("cat", `,"stdin":true`)
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.url+"/v1/sessions/"+id+"/stdin", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	ended := make(chan int, 1)
	go func() {
		resp, err := (&http.Client{Transport: g.tcp.Transport.(validating).next}).Do(req)
		if err != nil {
			ended <- 0 // it was cut off
			return
		}
		resp.Body.Close()
		ended <- resp.StatusCode
	}()
	if _, err := io.WriteString(w, "one\n"); err != nil {
		t.Fatal(err)
	}
	g.await(id, 0, "one\n")
	g.do("DELETE", "/v1/keys/gone", "").is(204)
	select {
	case status := <-ended:
		if status != 401 {
			t.Errorf("it ended with %d", status)
		}
	case <-time.After(2 * time.Second):
		t.Error("input by a key that was revoked goes on")
	}
	go func() { _, _ = io.WriteString(w, "stolen\n"); w.Close() }()
	time.Sleep(100 * time.Millisecond)
	g.do("POST", "/v1/sessions/"+id+"/stdin?eof", "two\n").is(200)
	g.ended(id)
	if got := g.do("GET", "/v1/sessions/"+id+"/output", "").is(200).body; got != "one\ntwo\n" {
		t.Errorf("the command was sent %q", got)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// The routes of keys, held against the document.
func TestKeyRoutes(t *testing.T) {
	g, keys := keyRig(t)
	var made api.MadeKey
	if err := json.Unmarshal([]byte(g.do("POST", "/v1/keys", `{"name":"a","role":"agent","agents":["x-*"],"hosts":["sandbox"],"rate":2.5,"maxSessions":1,"ttl":"1h"}`).is(201).body), &made); err != nil {
		t.Fatal(err)
	}
	g.do("POST", "/v1/keys", `{"name":"a","role":"agent"}`).code(409, "conflict")
	g.do("POST", "/v1/keys", `{"name":"b","role":"agent","agents":["["]}`).code(400, "invalid")
	if body := g.do("GET", "/v1/keys", "").is(200).body; !strings.Contains(body, made.ID) || strings.Contains(body, made.Secret) {
		t.Errorf("%s", body)
	}
	g.do("POST", "/v1/keys/a/rotate", "").is(200)
	g.do("DELETE", "/v1/keys/"+made.ID, "").code(404, "not-found")
	g.do("DELETE", "/v1/keys/a", "").is(204)
	// The token makes no keys: with one it could allow itself more.
	g.as(testToken, "POST", "/v1/keys", `{"name":"b","role":"admin"}`).code(403, "denied")
	admin := g.key(keys, api.NewKey{Name: "admin", Role: "admin"})
	g.as(admin, "POST", "/v1/keys", `{"name":"b","role":"admin"}`).is(201)
}

// Wrong keys are told to come back later, and right ones are not.
func TestWrongKeys(t *testing.T) {
	g, keys := keyRig(t)
	right := g.key(keys, api.NewKey{Name: "right", Role: "viewer"})
	count := map[int]int{}
	for range 2 * wrongBurst {
		count[g.as(right[:len(right)-12]+"wrong", "GET", "/v1/sessions", "").status]++
	}
	if count[401] < wrongBurst || count[429] == 0 {
		t.Errorf("%v", count)
	}
	g.as(right, "GET", "/v1/sessions", "").is(200)
}

// noE2B serves clients of E2B, who have no sandboxes.
func noE2B(t testing.TB, keys *access.Store) *e2b.Server {
	t.Helper()
	store, err := e2b.OpenStore(filepath.Join(testdir.New(t), "e2b"))
	if err != nil {
		t.Fatal(err)
	}
	s := e2b.New(e2b.Config{Store: store, Grant: keys.Grant, Settings: func() (c config.E2B) { return c }})
	t.Cleanup(s.Close)
	return s
}
