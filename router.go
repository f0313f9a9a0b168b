package corral

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/located"
	"github.com/corral-exec/corral/internal/recent"
	"github.com/corral-exec/corral/internal/turn"
)

// RouterOptions configures a Router.
type RouterOptions struct {
	Host            Host   // tools.exec.host: the host commands are bound to; empty: none
	Node            string // tools.exec.node: the node that host node means; empty: the only one
	SandboxOn       bool   // sandbox.mode is not off
	SandboxRequired bool   // sandbox.required: with the sandbox off, refuse instead of running without one

	// Guard is asked before a command is started for the first time on a host
	// that has policy and approvals of its own (Route.Guarded). Nil: it may
	// run.
	Guard Guard

	// Sandbox may also be set with the sandbox off: then it starts nothing,
	// and Attach still finds what it started before.
	Sandbox Executor
	Gateway Executor
	Nodes   Nodes
	// A nil executor is a place that does not exist; starting something
	// there is ErrUnavailable.
}

// A Guard decides whether a command may run. It returns the command, perhaps with a
// Domain. Otherwise it returns ErrDenied, or ErrApproval if the command has to be
// approved. The Node of the route is the full name of the selected node. Package
// policy/guard has a Guard.
type Guard func(ctx context.Context, cmd Command, route Route) (Command, error)

// ErrNoNode: no paired node has that name; retrying will not help. It is the cause of
// an ErrUnavailable.
var ErrNoNode = errors.New("no such node")

// Nodes are the paired machines. Package nodeexec implements it.
type Nodes interface {
	// Select returns the executor of a node and the node's full name. The name is a
	// node's id, name, address or an unambiguous prefix of its id; the empty name means
	// the only node. The error is ErrUnavailable when no connected node has the name,
	// with ErrNoNode as its cause if no paired node has it either, and ErrInvalid when
	// several nodes match. For the name of a pool of nodes the executor is a
	// [OneOfMany].
	Select(ctx context.Context, name string) (Executor, string, error)

	// Attach is that of an Executor, over all nodes. The Info of the
	// process has the full name of its node.
	Attach(ctx context.Context, id string) (Process, error)
}

// OneOfMany is the Executor of a node that was chosen out of several suitable ones.
type OneOfMany interface {
	Executor
	// Next chooses another node that has not been tried yet. Call it only for a command
	// that surely was not started. The error is ErrUnavailable if no node is left.
	Next(ctx context.Context) (Executor, string, error)
}

// A Router is the Executor that sends each command to one of the three hosts.
// [Resolve] decides which; the Router does what it says. The Info of its
// processes tells where they really run.
//
// The Router holds no policy; its Guard does. A Router is cheap to make: when the
// configuration changes, make a new one over the same executors. It finds the processes
// that the old one started.
type Router struct {
	opt     RouterOptions
	started *recent.Map[origin] // the latest processes; an older one is found by asking every host
	locks   turn.Keyed[string]  // by ID
}

// NewRouter returns a Router. The caller may leave closing the executors to
// Router.Close, or close them itself.
func NewRouter(opt RouterOptions) *Router {
	return &Router{opt: opt, started: recent.New[origin](maxRemembered)}
}

// maxRemembered bounds the processes that a Router remembers.
const maxRemembered = 4096

// origin is where a Router started a process, and the notice that it gave.
type origin struct {
	host   Host
	node   string
	notice string
}

// Route says where Start would send cmd. It does not check whether the sandbox can be
// reached.
func (r *Router) Route(cmd Command) (Route, error) {
	sandbox := SandboxOff
	if r.opt.SandboxOn {
		sandbox = SandboxOn
	}
	return Resolve(RouteRequest{
		Configured:      r.opt.Host,
		Requested:       cmd.Host,
		Elevated:        cmd.Elevated,
		Sandbox:         sandbox,
		SandboxRequired: r.opt.SandboxRequired,
		BoundNode:       r.opt.Node,
		Node:            cmd.Node,
	})
}

// Start sends cmd to the host that Route names.
//
// If a host already has a process with the ID, Start returns that process and runs
// nothing, even if cmd would go to another host now. It compares Info.Digest and does
// not ask the executor to start cmd, since the process could be gone by then. Only
// without a digest does it ask the executor, after the Guard.
//
// If a host cannot tell whether it has the ID, Start goes on without it, unless this
// Router started the ID there; otherwise one node that is switched off would stop every
// start. Without a digest, a node that this Router did not use is ErrConflict.
// Fresh: the ID is new, so the Router does not search the hosts for it.
func (r *Router) Start(ctx context.Context, cmd Command) (Process, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	fresh := cmd.Decided.Fresh
	cmd.Domain, cmd.Decided = nil, decided.About{}
	route, err := r.Route(cmd)
	if err != nil {
		return nil, err
	}
	if cmd.ID == "" {
		return r.startNew(ctx, cmd, route)
	}
	// Without the lock, two starts of one ID could each find nothing and go to
	// different hosts. And with a concurrent Remove, starting again could run the command
	// once more, on a host that the route no longer names.
	unlock, err := r.locks.Take(ctx, cmd.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if fresh {
		return r.startNew(ctx, cmd, route)
	}

	p, err := r.find(ctx, cmd.ID)
	_, known := r.started.Get(cmd.ID)
	switch {
	case err == nil:
		return r.startAgain(ctx, cmd, p, route)
	case errors.Is(err, ErrNotFound):
		return r.startNew(ctx, cmd, route)
	case errors.Is(err, ErrUnavailable) && !known:
		return r.startNew(ctx, cmd, route)
	}
	return nil, err
}

func (r *Router) startNew(ctx context.Context, cmd Command, route Route) (Process, error) {
	ex, node, err := r.executor(ctx, route.Host, route.Node)
	if err != nil {
		return nil, err
	}
	var tried error
	for {
		route.Node = node // the Guard is asked about one machine
		p, err := r.startAt(ctx, cmd, route, ex)
		// An ErrLost may have an ErrUnavailable for its cause.
		if err == nil || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLost) || ctx.Err() != nil {
			return p, err
		}
		if tried == nil {
			tried = err
		} else {
			tried = Errorf(ErrUnavailable, Hint(tried), "%w; and %s", tried, err)
		}
		one, ok := ex.(OneOfMany)
		if !ok {
			return nil, tried
		}
		if ex, node, err = one.Next(ctx); err != nil { // no node is left
			return nil, tried
		}
	}
}

// startAt starts a command for the first time on the executor of its route.
func (r *Router) startAt(ctx context.Context, cmd Command, route Route, ex Executor) (Process, error) {
	cmd, err := r.guarded(ctx, cmd, route)
	if err != nil {
		return nil, err
	}
	at := origin{host: route.Host, node: route.Node, notice: route.Notice}
	// Noted before the start: after an ErrLost the command may run there.
	r.started.Put(cmd.ID, at)
	p, err := ex.Start(ctx, cmd)
	if err != nil {
		if !errors.Is(err, ErrLost) {
			r.started.Forget(cmd.ID)
		}
		if route.Host == HostSandbox && errors.Is(err, ErrUnavailable) && Hint(err) == "" {
			err = Errorf(ErrUnavailable, unreachableHint, "%w", err)
		}
		return nil, err
	}
	r.started.Put(p.Info().ID, at)
	return r.wrap(p, at), nil
}

// guarded asks the Guard, and returns the command with the limits that the Guard set.
func (r *Router) guarded(ctx context.Context, cmd Command, route Route) (Command, error) {
	switch {
	case route.Guarded && r.opt.Guard != nil:
		return r.opt.Guard(ctx, cmd, route)
	case route.Guarded && (cmd.Security != "" || cmd.Ask != "" || cmd.Approval != ""):
		return cmd, Errorf(ErrDenied, "leave security, ask and approval out, or set RouterOptions.Guard",
			"the command asks for a policy on host %s, and there is none", route.Host)
	}
	return cmd, nil
}

// startAgain handles a command whose ID has a process already.
func (r *Router) startAgain(ctx context.Context, cmd Command, p Process, route Route) (Process, error) {
	lives := p.Info()
	switch lives.Digest {
	case cmd.Digest():
		return p, nil
	case "": // a node might only claim to have the ID, to be sent the command
		if _, known := r.started.Get(cmd.ID); known || lives.Host != HostNode {
			return r.startUnknown(ctx, cmd, lives, route)
		}
	}
	return nil, Errorf(ErrConflict, "use a new id for a new command", "id %s was used for another command", cmd.ID)
}

// startUnknown handles a process without a digest: only its executor can tell whether
// the two commands are the same, so startUnknown asks it to start the command. If the
// process is gone by then, that runs the command; so the Guard is asked first.
func (r *Router) startUnknown(ctx context.Context, cmd Command, lives Info, route Route) (Process, error) {
	ex, node, err := r.executor(ctx, lives.Host, lives.Node)
	if err != nil {
		return nil, err
	}
	at, ok := r.started.Get(cmd.ID)
	if !ok {
		at = origin{host: lives.Host, node: node}
	}
	if route.Host != at.host {
		route.Guarded = at.host != HostSandbox
	}
	route.Host, route.Node, route.Sandboxed = at.host, at.node, lives.Sandboxed
	if cmd, err = r.guarded(ctx, cmd, route); err != nil {
		return nil, err
	}
	p, err := ex.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return r.wrap(p, at), nil
}

// Attach finds a process on the host that has it. The error is ErrNotFound only if
// every host says so. A node is believed only if no other host may have the process.
func (r *Router) Attach(ctx context.Context, id string) (Process, error) {
	if err := ValidateID(id); err != nil {
		return nil, Errorf(ErrNotFound, Hint(err), "no process can have that id: %w", err)
	}
	return r.find(ctx, id)
}

func (r *Router) find(ctx context.Context, id string) (Process, error) {
	if at, ok := r.started.Get(id); ok {
		p, err := r.attachAt(located.Or(ctx, string(at.host), at.node), at.host, id)
		if err == nil {
			return r.wrap(p, at), nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		r.started.Forget(id)
	}
	var unknown error
	for _, host := range located.Among(ctx, HostGateway, HostSandbox, HostNode) {
		if host == HostNode && unknown != nil {
			break
		}
		p, err := r.attachAt(ctx, host, id)
		switch {
		case err == nil:
			return r.wrap(p, origin{host: host, node: p.Info().Node}), nil
		case ctx.Err() != nil:
			return nil, err
		case errors.Is(err, ErrNotFound):
		case unknown == nil:
			unknown = fmt.Errorf("%s: %w", host, err)
		default:
			unknown = fmt.Errorf("%w; %s: %w", unknown, host, err)
		}
	}
	if unknown != nil {
		return nil, Errorf(ErrUnavailable, Hint(unknown), "cannot tell whether process %s exists: %w", id, unknown)
	}
	return nil, Errorf(ErrNotFound, "", "no host knows a process %s", id)
}

func (r *Router) attachAt(ctx context.Context, host Host, id string) (Process, error) {
	switch {
	case host == HostSandbox && r.opt.Sandbox != nil:
		return r.opt.Sandbox.Attach(ctx, id)
	case host == HostGateway && r.opt.Gateway != nil:
		return r.opt.Gateway.Attach(ctx, id)
	case host == HostNode && r.opt.Nodes != nil:
		return r.opt.Nodes.Attach(ctx, id)
	}
	return nil, ErrNotFound
}

func (r *Router) executor(ctx context.Context, host Host, node string) (Executor, string, error) {
	switch {
	case host == HostSandbox && r.opt.Sandbox != nil:
		return r.opt.Sandbox, "", nil
	case host == HostGateway && r.opt.Gateway != nil:
		return r.opt.Gateway, "", nil
	case host == HostNode && r.opt.Nodes != nil:
		return r.opt.Nodes.Select(ctx, node)
	}
	return nil, "", Errorf(ErrUnavailable, "choose another host, or set this one up", "host %s is not set up", host)
}

// Close closes every executor that can be closed, even if closing one fails. Commands
// go on wherever they can outlive this program.
func (r *Router) Close() error {
	var err error
	for _, part := range []struct {
		host Host
		ex   any
	}{{HostSandbox, r.opt.Sandbox}, {HostGateway, r.opt.Gateway}, {HostNode, r.opt.Nodes}} {
		if c, ok := part.ex.(io.Closer); ok {
			if cerr := c.Close(); cerr != nil {
				err = errors.Join(err, fmt.Errorf("cannot close host %s: %w", part.host, cerr))
			}
		}
	}
	return err
}

// routed is a Process that knows where it runs.
type routed struct {
	Process
	router *Router
	info   Info
}

func (r *Router) wrap(p Process, at origin) Process {
	info := p.Info()
	info.Host, info.Node = at.host, at.node
	if at.host != HostNode { // a node may have a sandbox of its own
		info.Sandboxed = at.host == HostSandbox
	}
	info.Notice = JoinNotice(at.notice, info.Notice)
	return &routed{Process: p, router: r, info: info}
}

func (p *routed) Info() Info { return p.info }

// Unwrap is for package internal/origin.
func (p *routed) Unwrap() Process { return p.Process }

func (p *routed) Remove(ctx context.Context) error {
	unlock, err := p.router.locks.Take(ctx, p.info.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.Process.Remove(ctx); err != nil {
		return err
	}
	p.router.started.Forget(p.info.ID)
	return nil
}
