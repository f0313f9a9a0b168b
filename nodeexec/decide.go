package nodeexec

import (
	"context"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// Decide asks a node, chosen as Select does, for its decision on a command of an agent.
// It returns the id and the full name of the node, and its answer as JSON, which
// package policy/guard makes and reads. The answer is the node's claim. Nothing is
// started. The error is errors.ErrUnsupported for a node without a policy of its own.
func (f *Fabric) Decide(ctx context.Context, node, agent string, cmd corral.Command) (id, name string, decision []byte, err error) {
	x, name, err := f.Select(ctx, node)
	if err != nil {
		return "", "", nil, err
	}
	n := x.(*Node) //nolint:forcetypeassert // Select returns no other
	id = n.peer.id
	if cmd.ID == "" {
		cmd.ID = corral.NewID()
	}
	if err := cmd.Validate(); err != nil {
		return id, name, nil, err
	}
	cmd.Decided.Grant = nil
	body, err := fabric.EncodeStart(agent, cmd, nil)
	if err != nil {
		return id, name, nil, err
	}
	a, err := n.ask(ctx, fabric.OpDecide, cmd.ID, body, min(startPatience, f.patience))
	if err != nil {
		return id, name, nil, err
	}
	if len(a.Decision) == 0 {
		return id, name, nil, corral.Errorf(corral.ErrUnavailable, "upgrade Corral on the node", "node %s does not say what it decides", name)
	}
	return id, name, a.Decision, nil
}
