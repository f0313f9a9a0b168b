package nodeexec

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/origin"
)

// startPatience is how long a node may be away when it is asked to start a command:
// long enough to connect again after a cut.
const startPatience = 3 * time.Second

// link is a node with its Fabric.
type link struct {
	f    *Fabric
	peer *peer
	name string // for people
}

// Node is the Executor of one node.
type Node struct {
	link
	pool  string   // from which it was chosen; empty if it was named
	tried []string // ids of the nodes of the pool that were tried, itself at the end
}

var _ corral.OneOfMany = (*Node)(nil)

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
	p := n.newProcess(cmd.ID)
	first := p.log.open(0, false, 0)
	body, err := fabric.EncodeStart(corral.AgentFrom(ctx), cmd, first.first(cmd.Log.Head))
	if err == nil {
		done := n.peer.begin()
		err = n.start(ctx, cmd.ID, body, p)
		done(err == nil)
	}
	if err != nil {
		first.Close()
		return nil, err
	}
	p.noStdin = !cmd.Stdin && cmd.TTY == nil
	p.log.idle.Keep(first, 0)
	return p, nil
}

// start asks a node to start a command, and fills in p.
func (n *Node) start(ctx context.Context, id string, body []byte, p *process) error {
	patience := min(startPatience, n.f.patience)
	a, err := n.f.call(ctx, n.peer, request{op: fabric.OpStart, id: id, body: body, once: true, patience: patience})
	u := (*unanswered)(nil)
	switch {
	case err == nil && a.Error != nil:
		return fabric.DecodeError(a.Error)
	case err == nil:
		return p.is(id, a)
	case !errors.As(err, &u):
		return err
	case u.maybe:
		return n.startedOrLost(ctx, id, u.cause, p)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return corral.Errorf(corral.ErrUnavailable, "start corral node there, or choose another node", "cannot start anything on node %s: %w", n.name, u.cause)
}

// startedOrLost finds out the result of an unanswered start. If the node's program has
// restarted since, the request is invalid there, and a process that the node does not
// know never ran.
func (n *Node) startedOrLost(ctx context.Context, id string, cause error, p *process) error {
	if ctx.Err() == nil && n.f.ctx.Err() == nil {
		a, err := n.ask(ctx, fabric.OpAttach, id, nil, min(startPatience, n.f.patience))
		switch {
		case err == nil:
			return p.is(id, a)
		case errors.Is(err, corral.ErrNotFound) && errors.Is(cause, errRestarted) && n.peer.problem(nil) == "": // no other machine may know it
			return corral.Errorf(corral.ErrUnavailable, "start it again", "node %s was restarted while it was asked to start process %s, and has not started it", n.name, id)
		}
	}
	return corral.Errorf(corral.ErrLost, "when the node can be reached, attach to the process by its id: that tells",
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
	p := n.newProcess(id)
	if err := p.is(id, a); err != nil {
		return nil, err
	}
	return p, nil
}

func (n *Node) newProcess(id string) *process {
	p := &process{link: n.link, info: origin.Info{Info: corral.Info{ID: id}}, known: make(chan struct{})}
	p.log.p = p
	return p
}

// is checks and stores a node's description of the process.
func (p *process) is(id string, a fabric.Answer) error {
	if a.Info == nil || a.Info.ID != id {
		return corral.Errorf(corral.ErrLost, "look at the log of the node", "node %s answers about another process than %s", p.name, id)
	}
	p.info = *a.Info
	if at := a.Info.StartedAt; !at.IsZero() {
		p.started = at.UnixNano()
	}
	p.info.Host, p.info.Node, p.info.Digest = corral.HostNode, p.name, a.Digest
	p.peer.here(&p.info.StartedAt)
	p.f.remember(id, p.peer.id)
	return nil
}
