package guard

import (
	"context"
	"path"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// Places is the executor of a node that has a sandbox beside the machine itself. The
// commands of an agent may go to either.
//
// A sandbox is its own boundary, as on a gateway: the node's rules, approvals and
// node.directories do not apply in it. A command that leaves it (elevated, if the node's
// configuration allows that) is decided on as if there were no sandbox.
type Places interface {
	// Executor attaches to processes in both places.
	corral.Executor
	// Place returns the Router that starts the agent's commands now, and the route of
	// cmd: to the sandbox (Sandboxed), or to the machine itself. Of cmd only Elevated
	// matters. The Router's Guard is Decided. The error says why the command may not
	// run anywhere.
	Place(agent string, cmd corral.Command) (*corral.Router, corral.Route, error)
}

type decidedKey struct{}

// withDecided marks a command that the Node has allowed, for Decided.
func withDecided(ctx context.Context, cmd corral.Command) context.Context {
	return context.WithValue(ctx, decidedKey{}, cmd)
}

// Decided is the guard of the Routers of Places. It lets through a command that the Node
// has decided on, and refuses all others.
func Decided(ctx context.Context, cmd corral.Command, _ corral.Route) (corral.Command, error) {
	d, ok := ctx.Value(decidedKey{}).(corral.Command)
	if !ok || d.ID != cmd.ID {
		return cmd, corral.Errorf(corral.ErrDenied, "", "nothing was decided about process %s", cmd.ID)
	}
	return d, nil
}

// place returns the executor that is to start a command, and the route to decide on.
func (n *Node) place(agent string, cmd corral.Command) (corral.Executor, corral.Route, error) {
	places, ok := n.host.(Places)
	if !ok {
		return n.host, onNode, nil
	}
	router, at, err := places.Place(agent, cmd)
	if err != nil {
		return nil, onNode, err
	}
	route := onNode
	route.Sandboxed = at.Sandboxed
	if at.Reason == corral.RouteElevated {
		route.Reason = at.Reason
	}
	return router, route, nil
}

// workdir is the working directory in a sandbox for a command without an absolute one.
const workdir = "/workspace"

// sandboxed makes e the explanation of a command for the node's sandbox, where the node's
// rules do not apply.
func (e *Explanation) sandboxed() {
	if !path.IsAbs(e.Request.Dir) {
		e.Request.Dir = path.Join(workdir, e.Request.Dir)
	}
	source := policy.Source{Name: "in its sandbox nothing is asked"}
	e.Decision = policy.Decision{
		Outcome: policy.Allowed, Reason: inSandbox, Segments: []policy.Segment{}, Fallback: policy.Allowed,
		Security:    policy.Setting[policy.Security]{Value: policy.SecurityFull, Source: source},
		Ask:         policy.Setting[policy.Ask]{Value: policy.AskOff, Source: source},
		AskFallback: policy.Setting[policy.Security]{Value: policy.SecurityFull, Source: source},
	}
}

// Features are the optional abilities of this node, as its executor reports them.
func (n *Node) Features() []string {
	if x, ok := n.host.(interface{ Features() []string }); ok {
		return x.Features()
	}
	return nil
}
