package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// fakeSandboxes has a sandbox about which everything is known, and one about which little
// is.
type fakeSandboxes struct {
	removed []string
	frozen  []string
	all     bool
	err     error
}

var (
	when = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	full = api.Sandbox{
		Name: "box", Agent: "me", Session: "chat:1", Scope: "session", State: api.SandboxRunning, Commands: 2, Created: when, Used: when,
		Engine: "docker", Image: "i", Runtime: "runsc", Driver: "fds", User: "1:1", Network: "bridge", ConfigHash: "h", Pooled: true,
		Workspace: "/w", WorkspaceAccess: "rw", Limits: &api.SandboxLimits{Memory: 1, Swap: -1, CPUs: 0.5, Pids: 3},
		Containers: []api.SandboxContainer{{Name: "c", ID: "x", Image: "i", Driver: "fds", Created: when, Running: true}},
	}
	bare = api.Sandbox{Name: "bare", State: api.SandboxNone, Containers: []api.SandboxContainer{}}
)

func (f *fakeSandboxes) of(name string) error {
	if name != "box" {
		return corral.Errorf(corral.ErrNotFound, "", "there is no sandbox %q", name)
	}
	return f.err
}

func (f *fakeSandboxes) List(context.Context) ([]api.Sandbox, error) {
	return []api.Sandbox{bare, full}, f.err
}

func (f *fakeSandboxes) Get(_ context.Context, name string) (api.Sandbox, error) {
	return full, f.of(name)
}

func (f *fakeSandboxes) Remove(_ context.Context, name string) error {
	f.removed = append(f.removed, name)
	return f.of(name)
}

func (f *fakeSandboxes) Recreate(_ context.Context, name string) (api.Recreated, error) {
	return api.Recreated{Name: name, Container: "new"}, f.of(name)
}

func (f *fakeSandboxes) Pause(_ context.Context, name string) error {
	f.frozen = append(f.frozen, "pause "+name)
	return f.of(name)
}

func (f *fakeSandboxes) Resume(_ context.Context, name string) error {
	f.frozen = append(f.frozen, "resume "+name)
	return f.of(name)
}

func (f *fakeSandboxes) Stats(_ context.Context, name string) (api.SandboxStats, error) {
	return api.SandboxStats{Name: name, Container: "c", Running: true, At: when, Memory: 5, OOMKills: -1}, f.of(name)
}

func (f *fakeSandboxes) Log(_ context.Context, name string, all bool) (api.SandboxLog, error) {
	f.all = all
	return api.SandboxLog{Name: name, Containers: []api.SandboxLife{{
		Container: "c", Image: "i", Driver: "fds", Created: when, Error: "no",
		Setup: &api.SandboxSetup{Started: when, Ended: &when, Exit: "exit code 1", Failed: true, Bytes: 3, Output: "out"},
		Ended: &api.SandboxEnd{At: when, Removed: true, Code: 1, OOM: true, Error: "words", Why: "reason"},
	}, {Setup: &api.SandboxSetup{}}}}, f.of(name)
}

// Every operation on sandboxes, held against the document.
func TestSandboxes(t *testing.T) {
	f := &fakeSandboxes{}
	g := newRig(t, func(c *Config) { c.Sandboxes = f })
	names := func(query string) (got []string) {
		t.Helper()
		var list api.Sandboxes
		if err := json.Unmarshal([]byte(g.do("GET", "/v1/sandboxes"+query, "").is(200).body), &list); err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Sandboxes {
			got = append(got, s.Name)
		}
		return got
	}
	for query, want := range map[string]int{"": 2, "?agent=*": 2, "?agent=me": 1, "?agent=nobody": 0} {
		if got := names(query); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	var s api.Sandbox
	if err := json.Unmarshal([]byte(g.do("GET", "/v1/sandboxes/box", "").is(200).body), &s); err != nil || s.Limits == nil || s.Limits.CPUs != 0.5 || s.Session != "chat:1" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, verb := range []string{"pause", "resume"} {
		g.do("POST", "/v1/sandboxes/box/"+verb, "").is(204)
		g.do("POST", "/v1/sandboxes/none/"+verb, "").code(404, "not-found")
	}
	if got := strings.Join(f.frozen, ", "); got != "pause box, pause none, resume box, resume none" {
		t.Error(got)
	}
	if body := g.do("POST", "/v1/sandboxes/box/recreate", "").is(200).body; body != `{"name":"box","container":"new","left":[]}`+"\n" {
		t.Errorf("%s", body)
	}
	var stats api.SandboxStats
	if err := json.Unmarshal([]byte(g.do("GET", "/v1/sandboxes/box/stats", "").is(200).body), &stats); err != nil || stats.Memory != 5 || stats.OOMKills != -1 {
		t.Errorf("%+v, %v", stats, err)
	}
	var log api.SandboxLog
	if err := json.Unmarshal([]byte(g.do("GET", "/v1/sandboxes/box/log?all=true", "").is(200).body), &log); err != nil || !f.all || len(log.Containers) != 2 || log.Containers[0].Setup.Output != "out" {
		t.Errorf("%+v, %v", log, err)
	}
	if g.do("GET", "/v1/sandboxes/box/log", "").is(200); f.all {
		t.Error("all was asked for")
	}
	g.do("DELETE", "/v1/sandboxes/box", "").is(204)
	for _, r := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/recreate"}, {"POST", "/pause"}, {"POST", "/resume"}, {"GET", "/stats"}, {"GET", "/log"}} {
		g.do(r[0], "/v1/sandboxes/other"+r[1], "").code(404, "not-found")
	}
	if len(f.removed) != 2 {
		t.Errorf("removed %v", f.removed)
	}
	f.err = corral.Errorf(errors.ErrUnsupported, "", "this engine does not tell")
	g.do("GET", "/v1/sandboxes/box/stats", "").code(501, "unsupported")
	g.do("GET", "/v1/sandboxes", "").code(501, "unsupported")
	g.send(g.careless(), "http://localhost/v1/sandboxes/box/log?all=maybe", "GET", "").code(400, "invalid")
}

// A gateway without sandboxes has none to list, and none to do anything with.
func TestNoSandboxes(t *testing.T) {
	g := newRig(t, nil)
	if body := g.do("GET", "/v1/sandboxes", "").is(200).body; body != `{"sandboxes":[]}`+"\n" {
		t.Errorf("%s", body)
	}
	g.do("GET", "/v1/sandboxes/box", "").code(404, "not-found")
	g.do("POST", "/v1/sandboxes/box/recreate", "").code(404, "not-found")
}

func TestPruneAndPools(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Prune = func(context.Context) ([]string, error) { return []string{"corral-old"}, nil }
		c.Pools = func() []api.SandboxPool { return []api.SandboxPool{{For: "agents", Size: 2, Ready: 1}} }
	})
	if got := g.do("POST", "/v1/sandboxes/prune", "").is(200).body; !strings.Contains(got, `"removed":["corral-old"]`) {
		t.Errorf("%s", got)
	}
	if got := g.do("GET", "/v1/sandboxes", "").is(200).body; !strings.Contains(got, `"pools":[{"for":"agents","size":2,"ready":1}]`) {
		t.Errorf("%s", got)
	}
	newRig(t, nil).do("POST", "/v1/sandboxes/prune", "").code(404, "not-found")
}
