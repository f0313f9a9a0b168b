package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// A command that was approved runs by the right of the key that asked for it: it counts for
// what the key may have at a time, and does not run once the key has ended.
func TestApprovedByTheRightOfItsKey(t *testing.T) {
	g := serveWith(t, `{
		sandbox: { mode: "off" }, gateway: { listen: "127.0.0.1:0" },
		agents: { defaults: { workspace: "WORK", tools: { exec: { host: "gateway", security: "full", ask: "always" } } } },
	}`)
	desk := g.s.hosts.policies.desk
	as := func(agent string, quota api.Quota) (*client.Client, api.MadeKey) {
		t.Helper()
		return g.withKey(api.NewKey{Name: "of " + agent, Role: "agent", Agents: []string{agent}, Quota: quota}, agent)
	}
	ask := func(c *client.Client, agent, id string) string {
		t.Helper()
		if _, err := c.Start(t.Context(), corral.Command{ID: id, Shell: "sleep 600; : " + id}); !errors.Is(err, corral.ErrApproval) {
			t.Fatal(err)
		}
		for _, rec := range desk.List(approval.Filter{Agent: agent, State: approval.Pending}) {
			if rec.StartID() == id {
				return rec.ID
			}
		}
		t.Fatalf("no approval of %s", id)
		return ""
	}
	allow := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, err := desk.Answer(t.Context(), id, approval.Answer{Decision: approval.AllowOnce, By: "alice"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	running := func(agent string) (ids []string) {
		for _, s := range g.s.sessions.Agent(agent).List(t.Context()) {
			if s.State == session.Running {
				ids = append(ids, s.ID)
			}
		}
		return ids
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("not in time: ", what)
			}
		}
	}
	kill := func(id string) {
		t.Helper()
		s, err := g.s.sessions.Agent("few").Session(id)
		if err == nil {
			_, err = s.Kill(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	few, _ := as("few", api.Quota{MaxSessions: 1})
	one, two := ask(few, "few", "one"), ask(few, "few", "two")
	allow(one)
	until("the first runs", func() bool { return len(running("few")) == 1 })
	allow(two)

	gone, key := as("gone", api.Quota{})
	three := ask(gone, "gone", "three")
	if err := g.client("main").RevokeKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	allow(three)
	until("what a revoked key asked for is refused", func() bool {
		rec, err := desk.Get("gone", three)
		return err == nil && rec.State == approval.Denied && strings.Contains(rec.Settled(), "the key that asked for it has ended")
	})
	if ids := running("gone"); len(ids) > 0 {
		t.Errorf("it runs: %q", ids)
	}

	if ids := running("few"); len(ids) != 1 {
		t.Errorf("by a key that may have one: %q", ids)
	}
	kill("one")
	until("the second runs after the first", func() bool { ids := running("few"); return len(ids) == 1 && ids[0] == "two" })
	kill("two")
}
