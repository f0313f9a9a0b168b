package guard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// workspace below ~ is in the home directory.
func TestRequestAndDomain(t *testing.T) {
	r := newRig(t, `agents: {defaults: {workspace: "~/w"}}, tools: {exec: {host: "gateway", security: "allowlist", ask: "on-miss", enforce: "require", rules: [{allow: "**/tool", runs: "none"}]}}`)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	e, err := r.guard.Explain(t.Context(), "main", cmd, gateway)
	r.ok(err)
	if !slices.Equal(e.Request.Shell, []string{"/bin/sh", "-c"}) || e.Request.Workspace != r.at("home/w") {
		t.Errorf("%+v", e.Request)
	}
	out, err := r.check(cmd)
	if err != nil || out.Domain == nil || !out.Domain.Required || len(out.Decided.Exec) == 0 {
		t.Errorf("%+v, %v", out, err)
	}
	if e, err = r.guard.Explain(t.Context(), "main", corral.Command{Args: []string{"tool", "a"}}, gateway); err != nil || e.Request.Shell != nil {
		t.Errorf("%q, %v", e.Request.Shell, err)
	}
}

// A configured directory before PATH is no variable of the call, also if it is below ~.
func TestConfiguredDirectoryBelowHome(t *testing.T) {
	r := newRig(t, `tools: {exec: {host: "gateway", security: "allowlist", ask: "on-miss", pathPrepend: ["~/bin"], rules: [{allow: "**/tool"}]}}`)
	r.guard.cfg.Home = r.dir
	if _, err := r.check(corral.Command{Shell: "tool a", PathPrepend: []string{r.at("bin")}}); err != nil {
		t.Error(err)
	}
	rec := r.pending(corral.Command{Shell: "tool a", PathPrepend: []string{r.at("bin"), r.at("first")}, Env: map[string]string{"ZIP": "-T"}})
	if len(rec.Decision.Variables) != 2 { // ZIP is one besides PATH
		t.Errorf("%+v", rec.Decision.Variables)
	}
}

// Without a desk nobody can be asked, and no approval is good for anything.
func TestWithoutDesk(t *testing.T) {
	r := newRig(t, onHost)
	r.guard.cfg.Desk = nil
	r.denied(corral.Command{Shell: "tool"}, "nobody can be asked")
	if _, err := r.check(corral.Command{Shell: "tool", Approval: "a"}); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
	if _, err := r.check(corral.Command{Shell: "head", Approval: "a"}); err != nil {
		t.Error(err)
	}
	p := newPair(t, nodeSettings, nodeSettings)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	g := p.grantFor("main", cmd)
	p.rig.guard.cfg.Desk = nil
	if err := p.try("main", cmd, g); !errors.Is(err, corral.ErrDenied) || p.host.Starts() != 0 {
		t.Error(err)
	}
}

// An approval that another gateway asked for is not used here.
func TestApprovalOfAnotherGateway(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool"}
	rec := r.answer(r.pending(cmd), approval.AllowOnce)
	r.ok(r.desk.Close())
	var err error
	r.desk, err = approval.OpenDesk(approval.Options{Dir: r.at("state", "approvals"), Gateway: "another"})
	r.ok(err)
	r.guard.cfg.Desk = r.desk
	if next := r.pending(cmd); next.ID == rec.ID {
		t.Error("it is the same approval")
	}
}

// A call that repeats a pending command after a restart brings the environment back.
func TestEnvironmentComesBack(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool", Env: map[string]string{"A": "1"}}
	rec := r.pending(cmd)
	r.again()
	if again := r.pending(cmd); again.ID != rec.ID {
		t.Fatalf("%s is asked for besides %s", again.ID, rec.ID)
	}
	h := r.serve()
	r.answer(rec, approval.AllowOnce)
	h.next()
	if ran, _, denials := h.got(); len(ran) != 1 || ran[0].Env["A"] != "1" {
		t.Errorf("%+v, %q", ran, denials)
	}
}

// name later.
func TestAskedForNode(t *testing.T) {
	r := newRig(t, nodeSettings)
	r.nodes = &oneNode{name: "builder"}
	r.again()
	n, ok := r.pendingOnNode(corral.Command{ID: "one", Shell: "tool", Node: "builder"}).Noted()
	if !ok || n.Command.Node != "id-of-it" {
		t.Errorf("%+v", n)
	}
}

// was denied or is not there.
func TestSpent(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	denied := r.answer(r.pending(cmd), approval.Deny)
	r.ok(r.file.Add("main", "", policy.Rule{Action: policy.Allow, Pattern: r.at("bin/tool")}))
	if _, err := r.check(cmd); err != nil {
		t.Error(err)
	}
	cmd.Approval = denied.ID
	r.denied(cmd, "was answered deny")
	cmd.Approval = "none"
	if _, err := r.check(cmd); !errors.Is(err, corral.ErrNotFound) {
		t.Error(err)
	}
}

// The same for an approval that expired, which is not needed.
func TestSpentExpired(t *testing.T) {
	r := newRig(t, onHost)
	r.expiry = 50 * time.Millisecond
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	rec := r.pending(cmd)
	_, err := r.desk.Wait(t.Context(), rec.ID)
	r.ok(err)
	r.ok(r.file.Add("main", "", policy.Rule{Action: policy.Allow, Pattern: r.at("bin/tool")}))
	cmd.Approval = rec.ID
	if _, err := r.check(cmd); err != nil {
		t.Error(err)
	}
}

// The level full counts only for a command that leaves a sandbox.
func TestFullWithoutSandbox(t *testing.T) {
	r := newRig(t, `tools: {elevated: {enabled: true, default: "full"}, exec: {host: "gateway", security: "allowlist", ask: "on-miss"}}`)
	r.pending(corral.Command{ID: "one", Shell: "tool", Elevated: true})
	left := gateway
	left.Reason = corral.RouteElevated
	if _, err := r.guard.For("main")(t.Context(), corral.Command{ID: "two", Shell: "tool", Elevated: true}, left); err != nil {
		t.Error(err)
	}
}

// not, and if it is damaged nothing goes to nodes.
func TestFileOfGateway(t *testing.T) {
	p := newPair(t, nodeSettings, trusting)
	p.ok(p.gw.file.Add("main", "", policy.Rule{Action: policy.Allow, Pattern: "/**"}))
	p.ok(p.gw.file.Add("main", "", policy.Rule{Action: policy.Deny, Pattern: "rm"}))
	p.pendingAtGateway(corral.Command{ID: "one", Shell: "tool a"})
	if _, err := p.start(corral.Command{ID: "two", Shell: "rm x"}); !errors.Is(err, corral.ErrDenied) || strings.Contains(err.Error(), "on node") {
		t.Error(err)
	}
	p.gw.write("state/exec-approvals.json", `{"version": 1, "agents": {"main": {"ask": "always"}}}`)
	out, err := p.gw.guard.For("main")(t.Context(), corral.Command{ID: "three", Shell: "head"}, toNode)
	if err != nil || out.Decided.Exec != nil { // its settings are for this machine, and the node itself pins programs
		t.Errorf("%+v, %v", out, err)
	}
	p.gw.write("state/exec-approvals.json", "{")
	if _, err := p.start(corral.Command{ID: "three", Shell: "head"}); !errors.Is(err, corral.ErrDenied) || strings.Contains(err.Error(), "on node") {
		t.Error(err)
	}
}

// A command that waits keeps by what right it was asked for. Its environment is forgotten
// when it is denied.
func TestCallerOfACommandThatWaits(t *testing.T) {
	r := newRig(t, onHost)
	r.guard.cfg.Caller = func(context.Context) string { return "a key" }
	h := r.serve()
	rec := r.pending(corral.Command{ID: "one", Shell: "tool", Env: map[string]string{"A": "1"}})
	if n, ok := rec.Noted(); !ok || n.Caller != "a key" || !n.Env {
		t.Errorf("%+v", n)
	}
	r.answer(rec, approval.Deny)
	h.next()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.guard.mu.Lock()
		n := len(r.guard.env)
		r.guard.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the environment stays in memory")
		}
	}
}

// Each of several gateways at one desk runs only what it asked about itself.
func TestServeOwnAlone(t *testing.T) {
	r := newRig(t, onHost)
	other := r.pending(corral.Command{ID: "one", Shell: "tool a"})
	r.ok(r.desk.Close())
	var err error
	r.desk, err = approval.OpenDesk(approval.Options{Dir: r.at("state", "approvals"), Gateway: "another"})
	r.ok(err)
	r.guard.cfg.Desk = r.desk
	h := r.serve()
	r.answer(other, approval.AllowOnce)
	r.answer(r.pending(corral.Command{ID: "two", Shell: "tool b"}), approval.AllowOnce)
	h.next()
	if ran, resumed, denials := h.got(); len(ran) != 1 || ran[0].ID != "two" || resumed != 0 || len(denials) != 0 {
		t.Errorf("%+v, %d, %q", ran, resumed, denials)
	}
}
