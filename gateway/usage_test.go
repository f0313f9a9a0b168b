package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
)

type measured struct {
	Sandboxes
	cpu int64
}

func (m *measured) List(context.Context) ([]api.Sandbox, error) {
	return []api.Sandbox{{Name: "box", Agent: "ours", State: api.SandboxRunning}, {Name: "old", State: api.SandboxEnded}}, nil
}

func (m *measured) Get(_ context.Context, name string) (api.Sandbox, error) {
	return api.Sandbox{Name: name, Agent: "ours"}, nil
}

func (m *measured) Stats(context.Context, string) (api.SandboxStats, error) {
	m.cpu += int64(time.Second)
	return api.SandboxStats{Running: true, Container: "c", At: time.Unix(m.cpu/int64(2*time.Second)*4, 0), CPU: m.cpu, Memory: 1 << 20, Pids: 3}, nil
}

func (g *rig) usage(of string) (u api.Usage) {
	g.t.Helper()
	if err := json.Unmarshal([]byte(g.do("GET", "/v1/usage?of="+of, "").is(200).body), &u); err != nil {
		g.t.Fatal(err)
	}
	return u
}

func TestUsage(t *testing.T) {
	box := &measured{}
	g := newRig(t, func(c *Config) { c.Sandboxes = box })
	g.start("echo", `,"id":"failing"`)
	g.ended("failing")
	now := time.Now()
	for i := range usageKept + 5 {
		g.server.measureOnce(t.Context(), now.Add(time.Duration(i+1)*usageEvery))
	}
	u := g.usage("gateway")
	if len(u.At) != usageKept || len(u.Series["running"]) != usageKept || len(u.Series) != 6 {
		t.Errorf("%d times, %d series", len(u.At), len(u.Series))
	}
	u = g.usage("sandbox:box")
	if n := len(u.At); n != usageKept || u.Series["memory"][n-1] != 1<<20 || u.Series["pids"][0] != 3 {
		t.Errorf("%+v", u)
	}
	if u = g.usage("sandbox:old"); len(u.At) != 0 {
		t.Errorf("of one that does not run: %+v", u)
	}
	g.do("GET", "/v1/usage?of=all", "").code(400, "invalid")
	// What is not measured any more is forgotten, and there is a bound.
	g.server.usage.forget(now.Add(48 * time.Hour))
	if u = g.usage("gateway"); len(u.At) != 0 {
		t.Errorf("%+v", u)
	}
	for i := range usageMost + 5 {
		g.server.usage.add(fmt.Sprint(i), now, map[string]float64{"x": 1})
	}
	if n := len(g.server.usage.of); n != usageMost {
		t.Errorf("%d are kept", n)
	}
}

// Of processors it is what was used between two measurements.
func TestProcessors(t *testing.T) {
	u := &usage{}
	at := time.Now()
	stats := func(container string, after time.Duration, used time.Duration) api.SandboxStats {
		return api.SandboxStats{Container: container, At: at.Add(after), CPU: int64(used)}
	}
	for _, tc := range []struct {
		st   api.SandboxStats
		want float64
	}{{stats("a", 0, time.Second), 0}, {stats("a", 2*time.Second, 2*time.Second), .5}, {stats("b", 3*time.Second, time.Second), 0}, {stats("b", 4*time.Second, 0), 0}} {
		if got := u.processors("box", tc.st); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.st, got, tc.want)
		}
	}
}

func TestUsageOfTenant(t *testing.T) {
	box := &measured{}
	g, keys := keyRig(t)
	ours := g.key(keys, api.NewKey{Name: "ours", Role: "viewer", Agents: []string{"ours"}})
	g.as(ours, "GET", "/v1/usage?of=sandbox:box", "").code(404, "not-found") // the gateway has none
	g.server.cfg.Sandboxes = box
	theirs := g.key(keys, api.NewKey{Name: "theirs", Role: "viewer", Agents: []string{"theirs"}})
	g.as(ours, "GET", "/v1/usage?of=gateway", "").code(403, "denied")
	g.as(ours, "GET", "/v1/usage?of=sandbox:box", "").is(200)
	g.as(theirs, "GET", "/v1/usage?of=sandbox:box", "").code(404, "not-found")
}

// The doctor looks once a minute, however many ask.
func TestDoctor(t *testing.T) {
	looked := 0
	g := newRig(t, func(c *Config) {
		c.Doctor = func(context.Context) []api.Finding {
			looked++
			return []api.Finding{{Name: "engine", Status: api.SeverityFail, Summary: "no engine answers", Fix: "start one"}}
		}
	})
	for range 3 {
		var got api.Findings
		if err := json.Unmarshal([]byte(g.do("GET", "/v1/doctor", "").is(200).body), &got); err != nil || len(got.Findings) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if looked != 1 {
		t.Errorf("it looked %d times", looked)
	}
	newRig(t, nil).do("GET", "/v1/doctor", "").code(404, "not-found")
}
