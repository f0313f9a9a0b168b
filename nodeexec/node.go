package nodeexec

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fabric"
)

// startPatience is for how long a node may be away that is asked to start
// something: long enough to connect again after a cut.
const startPatience = 3 * time.Second

// link is a node as it is spoken to.
type link struct {
	f    *Fabric
	peer *peer
	name string // for people
}

// Node is the Executor of one node.
type Node struct{ link }

var _ corral.Executor = (*Node)(nil)

// Start implements corral.Executor.
func (n *Node) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cmd.ID == "" {
		cmd.ID = corral.NewID()
	}
	body, err := fabric.EncodeStart(cmd)
	if err != nil {
		return nil, err
	}
	patience := min(startPatience, n.f.patience)
	a, err := n.f.call(ctx, n.peer, request{op: fabric.OpStart, id: cmd.ID, body: body, once: true, patience: patience})
	u := (*unanswered)(nil)
	switch {
	case err == nil && a.Error != nil:
		return nil, fabric.DecodeError(a.Error)
	case err == nil:
		return n.process(cmd.ID, a)
	case !errors.As(err, &u):
		return nil, err
	case u.maybe:
		return n.startedOrLost(ctx, cmd.ID, u.cause)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, corral.Errorf(corral.ErrUnavailable, "start corral node there, or choose another node", "cannot start anything on node %s: %w", n.name, u.cause)
}

// startedOrLost finds out what became of a start that was not answered. If the
// node's program was started again since, the request means nothing to it any
// more, and a process that it does not know never ran.
func (n *Node) startedOrLost(ctx context.Context, id string, cause error) (corral.Process, error) {
	if ctx.Err() == nil && n.f.ctx.Err() == nil {
		a, err := n.ask(ctx, fabric.OpAttach, id, nil, min(startPatience, n.f.patience))
		switch {
		case err == nil:
			return n.process(id, a)
		case errors.Is(err, corral.ErrNotFound) && errors.Is(cause, errRestarted):
			return nil, corral.Errorf(corral.ErrUnavailable, "start it again", "node %s was restarted while it was asked to start process %s, and has not started it", n.name, id)
		}
	}
	return nil, corral.Errorf(corral.ErrLost, "when the node can be reached, attach to the process by its id: that tells",
		"node %s was asked to start process %s and did not answer: %w", n.name, id, cause)
}

// Attach implements corral.Executor.
func (n *Node) Attach(ctx context.Context, id string) (corral.Process, error) {
	if err := corral.ValidateID(id); err != nil {
		return nil, corral.Errorf(corral.ErrNotFound, corral.Hint(err), "no process can have that id: %w", err)
	}
	a, err := n.ask(ctx, fabric.OpAttach, id, nil, min(startPatience, n.f.patience))
	if err != nil {
		return nil, err
	}
	return n.process(id, a)
}

// process is what a node says that it has.
func (n *Node) process(id string, a fabric.Answer) (corral.Process, error) {
	if a.Info == nil || a.Info.ID != id {
		return nil, corral.Errorf(corral.ErrLost, "look at the log of the node", "node %s answers about another process than %s", n.name, id)
	}
	info := *a.Info
	info.Host, info.Node = corral.HostNode, n.name
	n.f.remember(id, n.peer.id)
	p := &process{link: n.link, info: info}
	p.log.init(p)
	return p, nil
}
