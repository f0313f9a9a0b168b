package guard

import (
	"context"
	"path"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// Places are the executor of a node that has more than the machine itself: each
// agent's commands may go to a sandbox there.
//
// A sandbox is its own boundary, as it is on a gateway: in one the node's rules
// and approvals mean nothing, and nor does node.directories. What leaves it, since
// the node's configuration says that elevated may, is decided on as if there were
// no sandbox.
type Places interface {
	// Executor attaches to processes wherever they are.
	corral.Executor
	// Place is what starts an agent's commands now, and where it has cmd go:
	// Sandboxed, or to the machine itself. Only Elevated of cmd makes a
	// difference. The Router's Guard is Decided. The error says why the command
	// may not run anywhere.
	Place(agent string, cmd corral.Command) (*corral.Router, corral.Route, error)
}

type decidedKey struct{}

// withDecided has the Routers of Places start what a Node let through.
func withDecided(ctx context.Context, cmd corral.Command) context.Context {
	return context.WithValue(ctx, decidedKey{}, cmd)
}

// Decided is the guard of the Routers of Places. The Node has decided before it
// starts anything by them; whatever else would be started is refused.
func Decided(ctx context.Context, cmd corral.Command, _ corral.Route) (corral.Command, error) {
	d, ok := ctx.Value(decidedKey{}).(corral.Command)
	if !ok || d.ID != cmd.ID {
		return cmd, corral.Errorf(corral.ErrDenied, "", "nothing was decided about process %s", cmd.ID)
	}
	return d, nil
}

// place is what is to start a command, and its route as it is decided on.
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

// workdir is where commands of a sandbox are that name no absolute directory.
const workdir = "/workspace"

// sandboxed has the explanation be of a command that goes to the node's sandbox, whatever
// its rules say of it.
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

// Features are what this node can do beside what every node can, as far as the
// executor behind it says.
func (n *Node) Features() []string {
	if x, ok := n.host.(interface{ Features() []string }); ok {
		return x.Features()
	}
	return nil
}
