package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// What was allowed once runs once, also if its agent removes the session and begins the same
// ID again.
func TestAllowedOnceRunsOnce(t *testing.T) {
	g := serveWith(t, `{ sandbox: { mode: "off" }, agents: { defaults: { workspace: "WORK" }, list: [{ id: "main", tools: { exec: { host: "gateway", ask: "always" } } }] } }`)
	c := g.client("main")
	out := filepath.Join(g.work, "out")
	cmd := corral.Command{ID: "one", Shell: "echo ran >> " + out}
	if _, err := c.Start(t.Context(), cmd); !errors.Is(err, corral.ErrApproval) {
		t.Fatal(err)
	}
	desk := g.s.hosts.policies.desk
	list := desk.List(approval.Filter{})
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	rec, err := answers{desk}.Answer(t.Context(), list[0].ID, approval.Answer{Decision: approval.AllowOnce, By: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.s.sessions.Agent("main").Session("one") // it is there for those who allow it
	if err == nil {
		if _, err = p.Wait(t.Context()); err == nil {
			err = p.Remove(t.Context())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd.Approval = rec.ID
	if _, err := c.Start(t.Context(), cmd); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("begun again: %v", err)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "ran\n" {
		t.Errorf("it ran: %q, %v", b, err)
	}
}
