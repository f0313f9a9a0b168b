package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A pair is a gateway and a node, each with its own directory. They call each other
// directly.
type pair struct {
	*rig      // the node's
	gw   *rig // the gateway's
	host *recorder
	node *Node
	said *logtest.Log // the node's log
}

// recorder is an executor that records the last command that it started.
type recorder struct {
	*fakeexec.Executor
	mu   sync.Mutex
	last corral.Command
}

func (r *recorder) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	r.mu.Lock()
	r.last = cmd
	r.mu.Unlock()
	return r.Executor.Start(ctx, cmd)
}

const nodeSettings = `tools: {exec: {security: "allowlist", ask: "on-miss"}}`

// newPair makes a node and a gateway with these settings.
func newPair(t *testing.T, node, gateway string) *pair {
	t.Helper()
	p := &pair{rig: newRig(t, node), gw: newRig(t, gateway), said: &logtest.Log{}}
	p.rig.log = slog.New(slog.NewTextHandler(p.said, nil))
	p.host = &recorder{Executor: &fakeexec.Executor{Programs: map[string]fakeexec.Program{}}}
	t.Cleanup(func() { p.ok(p.host.Close()) })
	p.gw.nodes = p
	p.gw.again()
	p.restart()
	return p
}

// restart restarts the node's program.
func (p *pair) restart() {
	p.Helper()
	p.rig.again()
	p.node = NewNode(p.host, p.rig.guard)
	p.node.warns.SetLimit(1e6)
	p.node.warns.SetBurst(1e6)
}

// Decide implements Nodes.
func (p *pair) Decide(ctx context.Context, node, agent string, cmd corral.Command) (id, name string, answer []byte, err error) {
	b, err := p.node.Decide(ctx, agent, cmd)
	return "id-of-builder", "builder", b, err
}

var toNode = corral.Route{Host: corral.HostNode, Node: "builder", Guarded: true}

// start starts a command as a gateway does: its guard first, and then the node.
func (p *pair) start(cmd corral.Command) (corral.Process, error) {
	p.Helper()
	out, err := p.gw.guard.For("main")(p.Context(), cmd, toNode)
	if err != nil {
		return nil, err
	}
	return p.node.StartFor(p.Context(), "main", out)
}

func (p *pair) pendingAtGateway(cmd corral.Command) approval.Record {
	p.Helper()
	_, err := p.start(cmd)
	pending, ok := approval.AsPending(err)
	if !ok {
		p.Fatalf("%+v is not asked about: %v", cmd, err)
	}
	return pending.Record
}

// grantFor is a valid grant.
func (p *pair) grantFor(agent string, cmd corral.Command) grant {
	p.Helper()
	b, err := p.node.Decide(p.Context(), agent, cmd)
	p.ok(err)
	a, err := parseAnswer("builder", b)
	p.ok(err)
	return grant{Approval: "a" + corral.NewID(), Agent: agent, Command: cmd.ID, Binding: a.Sum, Until: time.Now().Add(time.Minute).UnixMilli()}
}

func (p *pair) try(agent string, cmd corral.Command, g grant) error {
	p.Helper()
	var err error
	cmd.Decided.Grant, err = g.encode()
	p.ok(err)
	_, err = p.node.StartFor(p.Context(), agent, cmd)
	return err
}

func TestNodeDecides(t *testing.T) {
	p := newPair(t, nodeSettings, `tools: {exec: {security: "full", ask: "off"}}`)
	cmd := corral.Command{ID: "one", Shell: "tool a", Env: map[string]string{"A": "1"}}
	rec := p.pendingAtGateway(cmd)
	if rec.Host != corral.HostNode || rec.Node != "builder" || rec.Cwd != p.at("work") || rec.Binding.Node != "id-of-builder" ||
		!strings.HasPrefix(rec.Decision.Reason, "on node builder: ") || rec.Decision.Segments[0].Path != p.at("bin/tool") || rec.Command != "tool a" {
		t.Errorf("%+v", rec)
	}
	if p.host.Starts() != 0 {
		t.Fatal("it was started")
	}
	p.gw.answer(rec, approval.AllowOnce)
	cmd.Approval = rec.ID
	if _, err := p.start(cmd); err != nil || p.host.Starts() != 1 {
		t.Fatalf("%v, %d", err, p.host.Starts())
	}
	if _, err := p.start(cmd); err != nil || p.host.Starts() != 1 { // the same ID starts nothing more
		t.Errorf("%v, %d", err, p.host.Starts())
	}
	if used, err := p.desk.Get("", rec.ID); err != nil || used.State != approval.Consumed || !used.Granted || used.AnsweredBy != "alice at the gateway" || used.CommandID != "one" {
		t.Errorf("the node does not know by what it ran: %+v, %v", used, err)
	}
	cmd.ID = "two"
	if _, err := p.start(cmd); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("another command by the same approval: %v", err)
	}
	// A command that the node's rules allow runs, one that they deny does not.
	p.ok(p.file.Add("main", "", policy.Rule{Action: policy.Allow, Pattern: p.at("bin/tool") + " b"}))
	if _, err := p.start(corral.Command{ID: "three", Shell: "tool b"}); err != nil || p.host.Starts() != 2 {
		t.Errorf("%v, %d", err, p.host.Starts())
	}
	p.ok(p.file.Add("*", "", policy.Rule{Action: policy.Deny, Pattern: "tool c", Reason: "not here"}))
	_, err := p.start(corral.Command{ID: "four", Shell: "tool c"})
	d, ok := policy.AsDenied(err)
	if !ok || !strings.Contains(err.Error(), "on node builder: ") || !strings.Contains(err.Error(), "not here") || !strings.HasPrefix(d.Decision.Rule.Source.File, "node builder:/") {
		t.Errorf("%v", err)
	}
}

// The rule is kept on the node, for the agent, and not at the gateway.
func TestNodeAlways(t *testing.T) {
	p := newPair(t, nodeSettings, nodeSettings)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	rec := p.pendingAtGateway(cmd)
	if !slices.Contains(rec.AllowedDecisions, approval.AllowAlways) || rec.Previews[0].Entries[0].Pattern != p.at("bin/tool") {
		t.Fatalf("%+v", rec.Previews)
	}
	p.gw.answer(rec, approval.AllowAlways)
	cmd.Approval = rec.ID
	if _, err := p.start(cmd); err != nil {
		t.Fatal(err)
	}
	p.restart()
	if _, err := p.start(corral.Command{ID: "two", Shell: "tool a"}); err != nil || p.host.Starts() != 2 {
		t.Errorf("it is asked about again: %v", err)
	}
	p.pendingAtGateway(corral.Command{ID: "three", Shell: "tool b"})
	if host, err := p.gw.file.Rules("main"); err != nil || len(host.Rules) > 0 {
		t.Errorf("the gateway remembers it: %+v, %v", host, err)
	}
	if host, err := p.file.Rules("other"); err != nil || len(host.Rules) > 0 {
		t.Errorf("it is remembered for others: %+v, %v", host, err)
	}
}

// A command that the gateway itself asks about needs an approval every time, even if the
// node remembers it as allowed.
func TestGatewayAsksAlways(t *testing.T) {
	p := newPair(t, nodeSettings, `tools: {exec: {rules: [{ask: "tool"}]}}`)
	rec := p.pendingAtGateway(corral.Command{ID: "one", Shell: "tool a"})
	if slices.Contains(rec.AllowedDecisions, approval.AllowAlways) || !strings.Contains(rec.Previews[0].Unavailable, "the gateway asks about it every time") {
		t.Errorf("%+v", rec.Previews)
	}
}

// A gateway can make the node's decision stricter, but never laxer.
func TestGatewayTightens(t *testing.T) {
	for _, tc := range []struct {
		node, gateway string
		cmd           corral.Command
		want          policy.Outcome
		why           string
	}{
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "off"}}`, corral.Command{Shell: "tool > x"}, policy.Allowed, ""},
		{`tools: {exec: {security: "full", ask: "off"}}`, nodeSettings, corral.Command{Shell: "tool"}, policy.Asked, "no rule allows"},
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "always"}}`, corral.Command{Shell: "tool"}, policy.Asked, "ask=always"},
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "deny"}}`, corral.Command{Shell: "tool"}, policy.Denied, "security=deny"},
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "off"}}`, corral.Command{Shell: "tool", Security: "deny"}, policy.Denied, "security=deny (the call)"},
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "off", rules: [{deny: "tool"}]}}`, corral.Command{Shell: "nice tool"}, policy.Denied, `deny rule "tool"`},
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "off", rules: [{deny: "**/bin/tool"}]}}`, corral.Command{Shell: "tool"}, policy.Denied, `deny rule "**/bin/tool"`},
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "on-miss", rules: [{ask: "tool"}]}}`, corral.Command{Shell: "tool"}, policy.Asked, `ask rule "tool"`},
		{`tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "on-miss", rules: [{deny: "rm"}]}}`, corral.Command{Shell: "$X y"}, policy.Asked, "deny rules cannot be checked"},
		{nodeSettings, `tools: {exec: {security: "full", ask: "off", rules: [{allow: "**"}]}}`, corral.Command{Shell: "tool"}, policy.Asked, "on node builder: "},
		{`tools: {exec: {security: "deny"}}`, `tools: {exec: {security: "full", ask: "off"}}`, corral.Command{Shell: "tool"}, policy.Denied, "on node builder: security=deny"},
		{`tools: {exec: {security: "allowlist", ask: "off"}}`, `tools: {exec: {security: "full", ask: "off"}}`, corral.Command{Shell: "tool"}, policy.Denied, "on node builder: "},
		{nodeSettings, nodeSettings, corral.Command{Shell: "head", Security: "full", Ask: "off"}, policy.Allowed, ""},
		{nodeSettings, nodeSettings, corral.Command{Shell: "tool", Security: "full", Ask: "off"}, policy.Asked, "no rule allows"},
	} {
		p := newPair(t, tc.node, tc.gateway)
		tc.cmd.ID = "one"
		r, _, err := p.gw.guard.Report(t.Context(), "main", tc.cmd, toNode)
		if err != nil || r.Outcome != tc.want || !strings.Contains(r.Reason, tc.why) {
			t.Errorf("node %s, gateway %s, %+v: explained as %s, %q, %v; want %s, %q", tc.node, tc.gateway, tc.cmd, r.Outcome, r.Reason, err, tc.want, tc.why)
		}
		_, err = p.start(tc.cmd)
		got := policy.Allowed
		switch {
		case errors.Is(err, corral.ErrApproval):
			got = policy.Asked
		case errors.Is(err, corral.ErrDenied):
			got = policy.Denied
		case err != nil:
			t.Error(err)
		}
		if got != tc.want || (p.host.Starts() > 0) != (got == policy.Allowed) {
			t.Errorf("node %s, gateway %s, %+v: %v", tc.node, tc.gateway, tc.cmd, err)
		}
	}
}

// An attacker has taken over the gateway, or has its key.
func TestHostileGateway(t *testing.T) {
	strict := `node: {approvals: "local"}, ` + nodeSettings
	cmd := corral.Command{ID: "one", Shell: "tool a", Security: "full", Ask: "off"}
	attempts := []struct {
		name  string
		agent string
		forge func(p *pair, g *grant, cmd *corral.Command)
		why   string // if the node accepts a gateway's grants
	}{
		{"no grant", "main", nil, "it needs an approval, and came without one"},
		{"nonsense", "main", func(_ *pair, g *grant, _ *corral.Command) { *g = grant{} }, "it does not say by which approval"},
		{"an approval of no name", "main", func(_ *pair, g *grant, _ *corral.Command) { g.Approval = "../x" }, "its approval can be none"},
		{"approval and fallback", "main", func(_ *pair, g *grant, _ *corral.Command) { g.Fallback = true }, "it does not say by which approval"},
		{"for another agent", "other", nil, ""},
		{"for another agent, with its grant", "other", func(*pair, *grant, *corral.Command) {}, `it is for the agent "main"`},
		{"for another process", "main", func(_ *pair, _ *grant, cmd *corral.Command) { cmd.ID = "two" }, `it is for the process "one", and not for two`},
		{"for another command", "main", func(_ *pair, _ *grant, cmd *corral.Command) { cmd.Shell = "tool b" }, "is not what would run now"},
		{"with another environment", "main", func(_ *pair, _ *grant, cmd *corral.Command) { cmd.Env = map[string]string{"A": "1"} }, "is not what would run now"},
		{"in another directory", "main", func(p *pair, _ *grant, cmd *corral.Command) { cmd.Dir = p.at("bin") }, "is not what would run now"},
		{"of a program that was replaced", "main", func(p *pair, _ *grant, _ *corral.Command) { p.replace("bin/tool", "echo evil") }, "is not what would run now"},
		{"without a binding", "main", func(_ *pair, g *grant, _ *corral.Command) { g.Binding = "" }, "is not what would run now"},
		{"expired", "main", func(_ *pair, g *grant, _ *corral.Command) { g.Until = time.Now().Add(-time.Second).UnixMilli() }, "it was good until"},
		{"good for ever", "main", func(_ *pair, g *grant, _ *corral.Command) { g.Until = time.Now().Add(time.Hour).UnixMilli() }, "it would be good until"},
		{"by a fallback that there is not", "main", func(_ *pair, g *grant, _ *corral.Command) { g.Approval, g.Fallback = "", true }, "askFallback is deny"},
		{"something else is executed", "main", func(_ *pair, g *grant, cmd *corral.Command) {
			cmd.Decided.Exec, g.Approval = []string{"/bin/evil"}, ""
		}, "it does not say by which approval"},
	}
	for _, settings := range []string{nodeSettings, strict} {
		for _, tc := range attempts {
			t.Run(fmt.Sprintf("%s, strict %t", tc.name, settings == strict), func(t *testing.T) {
				p := newPair(t, settings, nodeSettings)
				g, cmd := p.grantFor("main", cmd), cmd
				p.said.Take()
				var err error
				if tc.forge == nil {
					_, err = p.node.StartFor(t.Context(), tc.agent, cmd)
				} else {
					tc.forge(p, &g, &cmd)
					err = p.try(tc.agent, cmd, g)
				}
				said := p.said.Take()
				want := corral.ErrDenied
				if settings == strict { // the node's own operators are asked
					want, tc.why = corral.ErrApproval, "is pending on the node, which answers for itself"
				}
				if !errors.Is(err, want) || !strings.Contains(err.Error(), tc.why) || p.host.Starts() != 0 {
					t.Errorf("%v, %d started; want %q", err, p.host.Starts(), tc.why)
				}
				if !strings.Contains(said, "process=") || strings.Contains(said, "tool a") || settings == strict && tc.forge != nil && !strings.Contains(said, "counts for nothing here") {
					t.Errorf("the log: %s", said)
				}
			})
		}
	}
	// A valid grant, at a node that accepts none.
	p := newPair(t, strict, nodeSettings)
	if err := p.try("main", cmd, p.grantFor("main", cmd)); !errors.Is(err, corral.ErrApproval) || p.host.Starts() != 0 || !strings.Contains(p.said.Take(), "counts for nothing here") {
		t.Errorf("a strict node took a gateway's word: %v", err)
	}
	// Deny rules and security=deny hold for approved commands too.
	p = newPair(t, nodeSettings, nodeSettings)
	g := p.grantFor("main", cmd)
	p.ok(p.file.Add("main", "", policy.Rule{Action: policy.Deny, Pattern: "tool"}))
	if err := p.try("main", cmd, g); !errors.Is(err, corral.ErrDenied) || p.host.Starts() != 0 || !strings.Contains(p.said.Take(), "refused a command of the gateway") {
		t.Errorf("a deny rule was overruled: %v", err)
	}
	// The node itself decides which programs run, and by which approval.
	for _, settings := range []string{nodeSettings, `tools: {exec: {security: "full", ask: "off"}}`} {
		p = newPair(t, settings, nodeSettings)
		_, err := p.node.StartFor(t.Context(), "main", corral.Command{
			ID: "x", Shell: "head -1", Decided: decided.About{Exec: []string{"/bin/evil"}}, Approval: "a", Elevated: true, Host: corral.HostGateway, Node: "other",
		})
		if last := p.host.last; err != nil || slices.Contains(last.Decided.Exec, "/bin/evil") || last.Approval != "" || last.Elevated || last.Decided.Grant != nil ||
			settings == nodeSettings && !slices.Equal(last.Decided.Exec, []string{"/usr/bin/head", "-1"}) {
			t.Errorf("%+v, %v", last, err)
		}
	}
	// No agent may have a name that means all agents, or an invalid one.
	for _, agent := range []string{"*", "a b", strings.Repeat("x", 1000)} {
		if _, err := p.node.StartFor(t.Context(), agent, corral.Command{ID: "x", Shell: "head"}); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("agent %.20q: %v", agent, err)
		}
		if _, err := p.node.Decide(t.Context(), agent, corral.Command{ID: "x", Shell: "head"}); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("agent %.20q: %v", agent, err)
		}
	}
}

// An approval is valid for one command, even after restarts and removals.
func TestReplays(t *testing.T) {
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	for name, again := range map[string]func(p *pair, g *grant, cmd *corral.Command){
		"another process":                 func(p *pair, g *grant, cmd *corral.Command) { cmd.ID, g.Command = "two", "two" },
		"another process after a restart": func(p *pair, g *grant, cmd *corral.Command) { p.restart(); cmd.ID, g.Command = "two", "two" },
		"the same, which is removed":      func(p *pair, g *grant, cmd *corral.Command) { p.remove("one") },
		"the same, after a restart":       func(p *pair, g *grant, cmd *corral.Command) { p.remove("one"); p.restart() },
		"for longer, after a restart": func(p *pair, g *grant, cmd *corral.Command) {
			p.remove("one")
			p.restart()
			g.Until = time.Now().Add(2 * time.Minute).UnixMilli()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, nodeSettings, nodeSettings)
			g := p.grantFor("main", cmd)
			p.ok(p.try("main", cmd, g))
			p.ok(p.try("main", cmd, g)) // this one runs
			if p.host.Starts() != 1 {
				t.Fatal(p.host.Starts())
			}
			p.said.Take()
			cmd := cmd
			again(p, &g, &cmd)
			if err := p.try("main", cmd, g); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "used already") || p.host.Starts() != 1 {
				t.Errorf("%v, %d started", err, p.host.Starts())
			}
			if !strings.Contains(p.said.Take(), "refused a command of the gateway") {
				t.Error("it is not in the log")
			}
		})
	}
}

// remove removes a process as a gateway does.
func (p *pair) remove(id string) {
	p.Helper()
	process, err := p.node.Attach(p.Context(), id)
	p.ok(err)
	_, err = process.Wait(p.Context())
	p.ok(err)
	p.ok(process.Remove(p.Context()))
}

// Grants of a gateway with a wrong clock are valid too: once, and for as long as they say
// by the node's clock.
func TestGatewayClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 10 * year, -10 * year} {
		t.Run(skew.String(), func(t *testing.T) {
			p := newPair(t, nodeSettings, nodeSettings)
			cmd := corral.Command{ID: "one", Shell: "tool a"}
			g := p.grantFor("main", cmd)
			g.At = time.Now().Add(skew).UnixMilli()
			g.Until = g.At + grantLife.Milliseconds()
			p.ok(p.try("main", cmd, g))
			rec, err := p.rig.desk.Get("main", g.Approval)
			p.ok(err)
			if left := time.Until(rec.ExpiresAt); left <= 0 || left > grantLife {
				t.Errorf("it is remembered for %s", left)
			}
			cmd.ID, g.Command = "two", "two"
			if err := p.try("main", cmd, g); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "used already") || p.host.Starts() != 1 {
				t.Errorf("%v, %d started", err, p.host.Starts())
			}
			for _, life := range []time.Duration{-time.Second, grantLife + time.Second} {
				cmd := corral.Command{ID: "three", Shell: "tool a"}
				g := p.grantFor("main", cmd)
				g.At = time.Now().Add(skew).UnixMilli()
				g.Until = g.At + life.Milliseconds()
				if err := p.try("main", cmd, g); !errors.Is(err, corral.ErrDenied) || p.host.Starts() != 1 {
					t.Errorf("for %s: %v, %d started", life, err, p.host.Starts())
				}
			}
		})
	}
}

// A command that certainly did not start may be started again by the same approval.
func TestNotStarted(t *testing.T) {
	p := newPair(t, nodeSettings, nodeSettings)
	failing := true
	p.host.Fault = func(op fakeexec.Op, _ string) error {
		if op == fakeexec.OpStart && failing {
			failing = false
			return corral.Errorf(corral.ErrUnavailable, "", "no room")
		}
		return nil
	}
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	g := p.grantFor("main", cmd)
	if err := p.try("main", cmd, g); !errors.Is(err, corral.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := p.try("main", cmd, g); err != nil || p.host.Starts() != 1 {
		t.Errorf("%v, %d", err, p.host.Starts())
	}
}

func TestStrictNode(t *testing.T) {
	p := newPair(t, `node: {approvals: "local"}, `+nodeSettings, nodeSettings)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	r, _, err := p.gw.guard.Report(t.Context(), "main", cmd, toNode)
	if err != nil || r.Outcome != policy.Asked || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "its own operators approve") }) {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = p.start(cmd)
	list := p.desk.List(approval.Filter{State: approval.Pending})
	if !errors.Is(err, corral.ErrApproval) || len(list) != 1 || len(p.gw.desk.List(approval.Filter{})) != 0 || !strings.Contains(corral.Hint(err), "on the node: corral node approvals allow "+list[0].Slug) {
		t.Fatalf("%v (%s), %+v", err, corral.Hint(err), list)
	}
	if _, ok := approval.AsPending(err); ok {
		t.Error("the gateway takes it for an approval of its own")
	}
	p.answer(list[0], approval.AllowOnce)
	if _, err := p.start(cmd); err != nil || p.host.Starts() != 1 {
		t.Errorf("%v, %d", err, p.host.Starts())
	}
	if _, err := p.start(corral.Command{ID: "two", Shell: "tool a"}); !errors.Is(err, corral.ErrApproval) {
		t.Errorf("it was allowed twice: %v", err)
	}
	// If the operators deny a command, the agent is told, and they are not asked again.
	two := p.desk.List(approval.Filter{State: approval.Pending})
	p.answer(two[0], approval.Deny)
	for _, id := range []string{"two", "three"} {
		_, err := p.start(corral.Command{ID: id, Shell: "tool a"})
		if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), `on the node, approval `+two[0].Slug+` was answered deny by "alice" at `) {
			t.Errorf("%v", err)
		}
	}
	if list := p.desk.List(approval.Filter{State: approval.Pending}); len(list) != 0 {
		t.Errorf("asked again: %+v", list)
	}
	if _, err := p.start(corral.Command{ID: "four", Shell: "tool b"}); !errors.Is(err, corral.ErrApproval) {
		t.Errorf("another command: %v", err)
	}
	// A command that the gateway asks about needs the gateway's approval first.
	p = newPair(t, `node: {approvals: "local"}, tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "on-miss", rules: [{ask: "tool"}]}}`)
	rec := p.gw.answer(p.pendingAtGateway(cmd), approval.AllowOnce)
	cmd.Approval = rec.ID
	if _, err := p.start(cmd); err != nil || p.host.Starts() != 1 {
		t.Errorf("%v, %d", err, p.host.Starts())
	}
	if list := p.desk.List(approval.Filter{}); len(list) != 0 {
		t.Errorf("the gateway's word is written down: %+v", list)
	}
}

func TestNodeDirectories(t *testing.T) {
	p := newPair(t, `tools: {exec: {security: "full", ask: "off"}}`, `tools: {exec: {security: "full", ask: "off"}}`)
	p.ok(os.MkdirAll(p.at("work/deep"), 0o755))
	p.ok(os.Symlink(p.at("state"), p.at("work/out")))
	p.write("config.json5", fmt.Sprintf(`{node: {directories: ["/none", %q]}, tools: {exec: {security: "full", ask: "off"}}}`, p.at("work")))
	p.restart()
	for dir, want := range map[string]error{
		"": nil, p.at("work"): nil, p.at("work/deep"): nil, p.at("work/deep/.."): nil,
		p.at("bin"): corral.ErrDenied, p.dir: corral.ErrDenied, p.at("work/.."): corral.ErrDenied, p.at("work/out"): corral.ErrDenied, "/": corral.ErrDenied,
		p.at("worker"): corral.ErrDir,
	} {
		_, err := p.start(corral.Command{ID: corral.NewID(), Shell: "tool", Dir: dir})
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("in %q: %v, want %v", dir, err, want)
		}
		if errors.Is(want, corral.ErrDenied) && !strings.Contains(err.Error(), "node.directories") {
			t.Errorf("in %q: %v", dir, err)
		}
	}
}

// The askFallback of the stricter side counts.
func TestNodeFallback(t *testing.T) {
	const lax = `tools: {exec: {security: "full", ask: "always", askFallback: "full"}}`
	unattended := `agents: {defaults: {unattended: true}}, `
	for _, tc := range []struct {
		node, gateway string
		runs          bool
	}{
		{lax, unattended + lax, true},
		{`tools: {exec: {security: "full", ask: "always"}}`, unattended + lax, false},
		{lax, unattended + `tools: {exec: {security: "full", ask: "always"}}`, false},
		{lax, unattended + `tools: {exec: {security: "full", ask: "always", askFallback: "full", rules: [{ask: "tool"}]}}`, false},
	} {
		p := newPair(t, tc.node, tc.gateway)
		_, err := p.start(corral.Command{ID: "one", Shell: "tool"})
		if (err == nil) != tc.runs || !tc.runs && !errors.Is(err, corral.ErrDenied) || (p.host.Starts() == 1) != tc.runs {
			t.Errorf("node %s, gateway %s: %v", tc.node, tc.gateway, err)
		}
	}
}

func TestNodeJSON(t *testing.T) {
	p := newPair(t, nodeSettings, nodeSettings)
	b, err := p.node.Decide(t.Context(), "main", corral.Command{ID: "one", Shell: strings.Repeat("tool | ", 900) + "tool"})
	if err != nil || len(b) > maxAnswer || !json.Valid(b) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	a, err := parseAnswer("builder", b)
	if err != nil || a.Omitted == 0 || a.Unbound == "" || a.Decision.Outcome != policy.Asked {
		t.Errorf("%+v, %v", a, err)
	}
	_, err = p.start(corral.Command{ID: "one", Shell: strings.Repeat("tool | ", 900) + "tool"})
	if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "put it into a script") {
		t.Errorf("%v", err)
	}
}

// A warning says which side a setting comes from, whichever side is the stricter.
func TestTwoSides(t *testing.T) {
	for name, tc := range map[string]struct{ node, gateway, warning, source string }{
		"the gateway": {trusting, nodeSettings, "Security is allowlist at the gateway (", "config.json5"},
		"the node":    {nodeSettings, trusting, "Security is full at the gateway (", "node builder:"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, tc.node, tc.gateway)
			e, err := p.gw.guard.Explain(t.Context(), "main", corral.Command{ID: "one", Shell: "tool a"}, toNode)
			p.ok(err)
			warnings := strings.Join(e.Warnings, "\n")
			if e.Decision.Outcome != policy.Asked || e.Decision.Security.Value != policy.SecurityAllowlist || !strings.Contains(e.Decision.Security.Source.String(), tc.source) ||
				strings.HasPrefix(e.Decision.Security.Source.String(), "node builder") != (name == "the node") {
				t.Errorf("%+v", e.Decision.Security)
			}
			if !strings.Contains(warnings, tc.warning) || !strings.Contains(warnings, "on the node (node builder:") || !strings.Contains(warnings, "the stricter of the two counts") {
				t.Errorf("%s", warnings)
			}
		})
	}
	same := newPair(t, nodeSettings, nodeSettings)
	if e, err := same.gw.guard.Explain(t.Context(), "main", corral.Command{ID: "one", Shell: "tool a"}, toNode); err != nil || len(e.Warnings) != 0 {
		t.Errorf("%q, %v", e.Warnings, err)
	}
}

// An approval has the same name on both sides.
func TestNodeSlug(t *testing.T) {
	p := newPair(t, nodeSettings, trusting)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	rec := p.pendingAtGateway(cmd)
	p.gw.answer(rec, approval.AllowOnce)
	cmd.Approval = rec.ID
	if _, err := p.start(cmd); err != nil {
		t.Fatal(err)
	}
	if used, err := p.desk.Get("", rec.Slug); err != nil || used.ID != rec.ID {
		t.Errorf("%+v, %v", used, err)
	}
}
