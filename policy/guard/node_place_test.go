package guard

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// boxes are the Places of a pair: its host, and a sandbox.
type boxes struct {
	host, box *recorder
	off       bool  // there is no sandbox
	stay      error // why no command may leave the sandbox

	dialled []string // of each, the agent and where
}

func (b *boxes) router() *corral.Router {
	opt := corral.RouterOptions{Gateway: b.host, Sandbox: b.box, SandboxOn: !b.off, Guard: Decided}
	if b.off {
		opt.Host = corral.HostGateway
	}
	return corral.NewRouter(opt)
}

func (b *boxes) Place(_ string, cmd corral.Command) (*corral.Router, corral.Route, error) {
	r := b.router()
	route, err := r.Route(corral.Command{Elevated: cmd.Elevated})
	if err == nil && route.Reason == corral.RouteElevated {
		err = b.stay
	}
	return r, route, err
}

func (b *boxes) Start(context.Context, corral.Command) (corral.Process, error) {
	return nil, errors.ErrUnsupported
}

func (b *boxes) Attach(ctx context.Context, id string) (corral.Process, error) {
	return b.router().Attach(ctx, id)
}

// boxed gives the node of a pair a sandbox.
func (p *pair) boxed() *boxes {
	b := &boxes{host: p.host, box: &recorder{Executor: &fakeexec.Executor{Info: corral.Info{Sandboxed: true}}}}
	p.Cleanup(func() { p.ok(b.box.Close()) })
	p.node = NewNode(b, p.rig.guard)
	return b
}

const trusting = `tools: {exec: {security: "full", ask: "off"}}`

// In its sandbox the node asks for no approval, and tells the gateway so.
func TestNodeSandbox(t *testing.T) {
	p := newPair(t, `tools: {exec: {security: "deny"}}, node: {approvals: "local", directories: ["/nowhere"]}`, trusting)
	b := p.boxed()
	cmd := corral.Command{ID: "one", Shell: "anything > /tmp/x", Dir: "sub"}
	e, err := p.gw.guard.Explain(t.Context(), "main", cmd, toNode)
	if err != nil || e.Decision.Outcome != policy.Allowed || !e.Route.Sandboxed || e.Route.Host != corral.HostNode || e.Request.Dir != "/workspace/sub" ||
		e.Decision.Reason != "on node builder: "+inSandbox || e.Decision.Security.Value != policy.SecurityFull {
		t.Errorf("%+v, %v", e, err)
	}
	proc, err := p.start(cmd)
	if err != nil || !proc.Info().Sandboxed || b.box.Starts() != 1 || p.host.Starts() != 0 || b.box.last.Decided.Exec != nil {
		t.Fatalf("%+v, %v", b.box.last, err)
	}
	if again, err := p.start(cmd); err != nil || again.Info().ID != "one" || b.box.Starts() != 1 {
		t.Errorf("started again: %v, %d", err, b.box.Starts())
	}
	// Starting a running command again needs no decision, although it could not start now.
	b.off = true
	if again, err := p.node.StartFor(t.Context(), "main", cmd); err != nil || again.Info().ID != "one" || p.host.Starts() != 0 {
		t.Errorf("started again elsewhere: %v", err)
	}
	// Without the sandbox the machine's own policy decides on every command.
	if _, err := p.start(corral.Command{ID: "two", Shell: "anything"}); !errors.Is(err, corral.ErrDenied) || p.host.Starts() != 0 {
		t.Errorf("%v", err)
	}
}

// The gateway's ask and deny rules apply to commands in a node's sandbox too.
func TestNodeSandboxAskedAtGateway(t *testing.T) {
	p := newPair(t, nodeSettings, `tools: {exec: {rules: [{ask: "tool"}, {deny: "rm"}]}}`)
	b := p.boxed()
	if _, err := p.start(corral.Command{ID: "no", Shell: "rm x"}); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v", err)
	}
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	rec := p.pendingAtGateway(cmd)
	p.gw.answer(rec, approval.AllowOnce)
	cmd.Approval = rec.ID
	if _, err := p.start(cmd); err != nil || b.box.Starts() != 1 {
		t.Fatalf("%v, %d", err, b.box.Starts())
	}
	// An approval for the sandbox is not valid for the machine.
	other := corral.Command{ID: "two", Shell: "tool b"}
	g := p.grantFor("main", other)
	b.off = true
	if err := p.try("main", other, g); !errors.Is(err, corral.ErrDenied) || p.host.Starts() != 0 {
		t.Errorf("%v, %d", err, p.host.Starts())
	}
	b.off = false
	other.Env = map[string]string{"A": "1"}
	if err := p.try("main", other, g); !errors.Is(err, corral.ErrDenied) || b.box.Starts() != 1 {
		t.Errorf("%v, %d", err, b.box.Starts())
	}
}

// A gateway cannot have a command leave the sandbox unless the node lets it, and
// then the node's policy decides.
func TestNodeSandboxElevated(t *testing.T) {
	p := newPair(t, nodeSettings, trusting)
	b := p.boxed()
	b.stay = corral.Errorf(corral.ErrDenied, "", "it stays in")
	cmd := corral.Command{ID: "one", Shell: "tool a", Elevated: true}
	if _, err := p.start(cmd); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "it stays in") {
		t.Errorf("%v", err)
	}
	if _, err := p.node.StartFor(t.Context(), "main", cmd); !errors.Is(err, corral.ErrDenied) || b.box.Starts()+p.host.Starts() != 0 {
		t.Errorf("%v", err)
	}
	b.stay = nil
	rec := p.pendingAtGateway(cmd)
	p.gw.answer(rec, approval.AllowOnce)
	cmd.Approval = rec.ID
	proc, err := p.start(cmd)
	if err != nil || proc.Info().Sandboxed || p.host.Starts() != 1 || p.host.last.Decided.Exec == nil {
		t.Errorf("%+v, %v", p.host.last, err)
	}
}

// The node's routers start no command that the node has not decided on.
func TestDecided(t *testing.T) {
	p := newPair(t, nodeSettings, trusting)
	b := p.boxed()
	b.off = true
	for name, ctx := range map[string]context.Context{"nothing": t.Context(), "another": withDecided(t.Context(), corral.Command{ID: "other"})} {
		if _, err := b.router().Start(ctx, corral.Command{ID: "one", Shell: "tool"}); !errors.Is(err, corral.ErrDenied) || p.host.Starts() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
