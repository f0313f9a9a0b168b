package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A Node is the executor of a machine that is a node, behind that machine's policy. The
// node's configuration, approvals file and desk decide. A gateway can make the decision
// stricter, never laxer.
//
// A command that needs an approval runs if the gateway sends a grant for exactly this
// command as it would run here. Each approval is valid for one command, and the desk
// remembers that it was used. If node.approvals is local in the configuration, grants do
// not count: the desk asks the node's own operators.
//
// If the executor implements Places, commands may run in a sandbox on the node. There no
// policy and no approval applies.
//
// Starting an existing process again runs nothing and needs no decision. Methods may be
// called from any goroutine.
type Node struct {
	host  corral.Executor
	guard *Guard
	warns *rate.Limiter      // a hostile sender must not fill the log
	locks turn.Keyed[string] // IDs of processes that are being started or removed

	mu     sync.Mutex
	unused map[string]bool // approvals used by commands that certainly did not start
}

var _ corral.Executor = (*Node)(nil)

// onNode is the route of commands that a Node decides on.
var onNode = corral.Route{Host: corral.HostNode, Guarded: true, Reason: corral.RouteRequested}

// mainAgent is the agent of a gateway that names none.
const mainAgent = "main"

// NewNode returns the executor of a node. The guard's Plan is that of host. Its Desk is
// needed for grants of a gateway too. The caller closes both.
func NewNode(host corral.Executor, g *Guard) *Node {
	return &Node{host: host, guard: g, warns: rate.NewLimiter(5, 20), unused: map[string]bool{}}
}

// Start is StartFor of the agent main.
func (n *Node) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	return n.StartFor(ctx, mainAgent, cmd)
}

// Attach implements corral.Executor.
func (n *Node) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := n.host.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	return n.wrap(p, nil), nil
}

// Running is the number of processes that run; 0 if the executor cannot tell.
func (n *Node) Running() int {
	if x, ok := n.host.(interface{ Running() int }); ok {
		return x.Running()
	}
	return 0
}

// StartFor starts a command of a gateway's agent. Security and Ask of the command are the
// gateway's minimum, and Decided.Grant its grant. Everything else that the gateway decided
// is ignored.
func (n *Node) StartFor(ctx context.Context, agent string, cmd corral.Command) (corral.Process, error) {
	said := cmd.Decided.Grant
	agent, cmd, err := n.sanitize(agent, cmd)
	if err != nil {
		return nil, err
	}

	// Without the lock, two starts of one ID could both find no process, and both run.
	unlock, err := n.locks.Take(ctx, cmd.ID)
	if err != nil {
		return nil, fmt.Errorf("process %s is being started: %w", cmd.ID, err)
	}
	defer unlock()
	old, err := n.host.Attach(ctx, cmd.ID)
	if err == nil {
		// A gateway does not know the IDs of another one, so the ID may belong to another
		// agent's process.
		if o := origin.Of(old); o != nil && o.Agent != agent {
			return nil, corral.Errorf(corral.ErrConflict, "use another id, or leave it out", "the id %s belongs to another command", cmd.ID)
		}
		// Do not call Start here: if the process were removed meanwhile, the command
		// would run without a decision.
		switch old.Info().Digest {
		case cmd.Digest():
			return n.wrap(old, nil), nil
		case "": // started by an earlier version: decide on it as on a new one
		default:
			return nil, corral.Errorf(corral.ErrConflict, "use a new id for a new command", "id %s was used for another command", cmd.ID)
		}
	} else if !errors.Is(err, corral.ErrNotFound) {
		return nil, err
	}
	ctx = pathenv.WithRules(ctx, EnvRules(n.guard.settings(agent).Tools.Exec))
	permit, err := n.authorize(ctx, agent, cmd, said)
	if err != nil {
		n.refused(agent, cmd.ID, err)
		return nil, err
	}
	permit.cmd.Decided.Fresh = old == nil // Attach found no process with this ID
	p, err := permit.on.Start(withDecided(corral.WithAgent(ctx, agent), permit.cmd), permit.cmd)
	if err != nil {
		if !errors.Is(err, corral.ErrLost) {
			n.notUsed(permit.approval)
		}
		return nil, err
	}
	return n.wrap(p, permit.warnings), nil
}

// sanitize checks agent and command of a gateway, and clears the fields that this node
// decides itself. Elevated is kept only if there is a sandbox to leave.
func (n *Node) sanitize(agent string, cmd corral.Command) (string, corral.Command, error) {
	if err := cmd.Validate(); err != nil {
		return "", cmd, err
	}
	agent = cmp.Or(agent, mainAgent)
	if err := corral.ValidateID(agent); err != nil { // "*" would mean all agents
		return "", cmd, corral.Errorf(corral.ErrInvalid, corral.Hint(err), "%q is no name of an agent: %w", agent, err)
	}
	cmd.Domain, cmd.Decided, cmd.Approval, cmd.Host, cmd.Node = nil, decided.About{}, "", "", ""
	if _, ok := n.host.(Places); !ok {
		cmd.Elevated = false
	}
	cmd.ID = cmp.Or(cmd.ID, corral.NewID())
	return agent, cmd, nil
}

// A permit is a command that may be started.
type permit struct {
	cmd      corral.Command
	on       corral.Executor // starts it
	approval string          // the ID of the approval at the gateway; empty: it needed none
	warnings []string
}

// authorize decides on a command that is not running yet. If it may not run, the error
// says why.
func (n *Node) authorize(ctx context.Context, agent string, cmd corral.Command, said []byte) (permit, error) {
	e, err := n.explain(ctx, agent, cmd)
	if err != nil {
		return permit{}, err
	}
	d := e.Decision
	switch {
	case d.Outcome == policy.Denied:
		return permit{}, &policy.DeniedError{Decision: d, Reason: d.Reason}
	case n.strict() && d.Outcome == policy.Asked:
		if said != nil {
			n.refused(agent, cmd.ID, errors.New("the gateway's approval counts for nothing here: node.approvals is local"))
		}
		if err := n.denied(agent, cmd, e); err != nil {
			return permit{}, err
		}
		cmd, err := n.guard.ask(ctx, agent, cmd, e)
		return permit{cmd: cmd, on: e.on}, ownPending(err)
	case d.Outcome == policy.Asked && said == nil:
		return permit{}, &policy.DeniedError{Decision: d, Reason: d.Reason + "; it needs an approval, and came without one"}
	case said == nil || n.strict():
		if n.guard.cfg.File != nil {
			n.guard.cfg.File.Used(e.text(), d)
		}
		return permit{cmd: e.pinned(cmd), on: e.on}, nil
	}
	return n.byGateway(ctx, cmd, e, said)
}

// denied is the error for a command that this node's operators denied. It holds until the
// request would have expired. Otherwise every new start by the agent would ask them again.
func (n *Node) denied(agent string, cmd corral.Command, e Explanation) error {
	if n.guard.cfg.Desk == nil {
		return nil
	}
	claim, err := n.guard.claimOf(agent, cmd, e)
	if err != nil {
		return nil //nolint:nilerr // ask says so
	}
	for _, rec := range n.guard.cfg.Desk.List(approval.Filter{Agent: agent, State: approval.Denied}) {
		if rec.Check(claim) == nil && time.Now().Before(rec.ExpiresAt) {
			return &policy.DeniedError{Decision: e.Decision, Reason: e.Decision.Reason + "; on the node, " + rec.Settled() +
				", which holds until " + rec.ExpiresAt.Format(time.RFC3339)}
		}
	}
	return nil
}

// ownPending turns a pending approval of this node into an error for the gateway, which
// cannot answer it.
func ownPending(err error) error {
	p, ok := approval.AsPending(err)
	if !ok {
		return err
	}
	return corral.Errorf(corral.ErrApproval, "on the node: corral node approvals allow "+p.Record.Slug+"; then have it run again",
		"approval %s is pending on the node, which answers for itself: %s", p.Record.Slug, p.Record.Decision.Reason)
}

// byGateway decides on a command that comes with a gateway's grant. The grant has to be
// valid even if the command needs no approval any more.
func (n *Node) byGateway(ctx context.Context, cmd corral.Command, e Explanation, said []byte) (permit, error) {
	g, err := parseGrant(said)
	if err != nil {
		return permit{}, err
	}
	claim, err := n.guard.claimOf(e.Agent, cmd, e)
	if err != nil {
		return permit{}, err
	}
	until, err := g.check(e.Agent, cmd.ID, claim.Binding.Digest(), time.Now())
	if err != nil {
		return permit{}, err
	}
	p := permit{cmd: e.pinned(cmd), on: e.on, approval: g.Approval}
	d := e.Decision
	if g.Fallback {
		if d.Outcome == policy.Asked && d.Fallback != policy.Allowed {
			return permit{}, &policy.DeniedError{Decision: d, Reason: d.Reason + "; nobody approved it, and askFallback is " + string(d.AskFallback.Value) + " (" + d.AskFallback.Source.String() + ")"}
		}
		return p, nil
	}
	desk := n.guard.cfg.Desk
	if desk == nil {
		return permit{}, refusal("it cannot be remembered here")
	}
	again, err := desk.Redeem(ctx, approval.Given{
		ID: g.Approval, Slug: g.Slug, CommandID: cmd.ID, Verdict: verdict(g), Scope: g.Always, By: cmp.Or(g.By, "somebody") + " at the gateway", Until: until,
	}, approval.Request{
		Agent: e.Agent, Host: claim.Host, Node: claim.Node, Command: e.Request, PathPrepend: cmd.PathPrepend, Decision: d, Binding: claim.Binding,
	})
	if err != nil {
		return permit{}, err
	}
	if again && !n.takeUnused(g.Approval) {
		return permit{}, refusal("it was used already, by a process that is over and removed")
	}
	n.guard.cfg.Log.Info("a command runs by an approval of the gateway", "agent", e.Agent, "process", cmd.ID, "approval", g.Approval)
	if g.Always != "" && d.Outcome == policy.Asked {
		if err := n.keep(e, g.Always); err != nil {
			n.guard.cfg.Log.Warn("what the gateway always allows is not remembered", "agent", e.Agent, "approval", g.Approval, "error", err)
			p.warnings = append(p.warnings, "The node does not remember that this is always allowed: "+err.Error()+".")
		}
	}
	return p, nil
}

func verdict(g grant) approval.Verdict {
	if g.Always != "" {
		return approval.AllowAlways
	}
	return approval.AllowOnce
}

// keep writes the rules of allow-always for a command to the approvals file.
func (n *Node) keep(e Explanation, scope approval.Scope) error {
	previews := n.previews(e)
	i := slices.IndexFunc(previews, func(p approval.Preview) bool { return p.Scope == scope })
	switch {
	case n.guard.cfg.File == nil:
		return errors.New("there is no file of approvals")
	case previews[i].Unavailable != "":
		return errors.New(previews[i].Unavailable)
	}
	return n.guard.cfg.File.Add(e.Agent, scope, previews[i].Entries...)
}

// previews are the rules that allow-always would remember for a command.
func (n *Node) previews(e Explanation) []approval.Preview {
	switch d := e.Decision; {
	case d.Ask.Value == policy.AskAlways:
		return unavailable("an approval is required every time: " + d.Ask.Source.String())
	case d.Rule != nil && d.Rule.Action == policy.Query:
		return unavailable("a rule has this asked about every time: " + d.Rule.Source.String())
	}
	return approval.Previews(e.Request, e.Decision, e.again)
}

// Decide returns this node's decision on a command, encoded for a gateway's guard. It
// starts nothing and asks for no approval.
func (n *Node) Decide(ctx context.Context, agent string, cmd corral.Command) ([]byte, error) {
	agent, cmd, err := n.sanitize(agent, cmd)
	if err != nil {
		return nil, err
	}
	e, err := n.explain(ctx, agent, cmd)
	if err != nil {
		return nil, err
	}
	a := answer{
		Decision: e.Decision, Local: n.strict() && !e.Route.Sandboxed, Sandboxed: e.Route.Sandboxed, Warnings: e.Warnings,
		Shell: e.Request.Shell, Dir: e.Request.Dir, Path: e.Request.Path, Home: e.Request.Home,
	}
	if !e.Route.Sandboxed {
		a.Own = e.own()
	}
	if e.Decision.Outcome != policy.Denied {
		if claim, err := n.guard.claimOf(agent, cmd, e); err != nil {
			a.Unbound = err.Error()
		} else {
			a.Binding, a.Sum = claim.Binding, claim.Binding.Digest()
		}
	}
	if e.Decision.Outcome == policy.Asked {
		a.Previews = n.previews(e)
	}
	return a.encode()
}

// explain decides on a command by the policy of this machine.
func (n *Node) explain(ctx context.Context, agent string, cmd corral.Command) (Explanation, error) {
	on, route, err := n.place(agent, cmd)
	if err != nil {
		return Explanation{}, err
	}
	e, err := n.guard.explainHere(ctx, agent, cmd, route, policy.Source{Name: fromGateway})
	if err != nil {
		return e, err
	}
	e.forGateway, e.on = true, on
	if route.Sandboxed {
		e.sandboxed()
		return e, nil
	}
	return e, n.guard.allowedDir(e.Request.Dir)
}

// strict reports whether this node ignores approvals of a gateway.
func (n *Node) strict() bool {
	return n.guard.cfg.Settings().Node.Approvals.Value == config.ApproverLocal
}

// allowedDir reports whether commands of a gateway may work in a directory.
func (g *Guard) allowedDir(dir string) error {
	set := g.cfg.Settings().Node.Directories
	if len(set.Value) == 0 {
		return nil
	}
	real, err := g.cfg.View.RealPath(dir)
	if err != nil {
		return corral.Errorf(corral.ErrDir, "use a directory that exists on the node", "cannot use the working directory: %w", err)
	}
	for _, allowed := range set.Value {
		allowed, err := g.cfg.View.RealPath(config.ExpandHome(allowed, g.cfg.Home))
		if err != nil {
			continue // it does not exist, so nothing is in it
		}
		if rel, err := filepath.Rel(allowed, real); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return corral.Errorf(corral.ErrDenied, "use a directory below "+strings.Join(set.Value, " or "),
		"the node lets no command of a gateway work in %s (%s)", real, set.Source)
}

// refused logs that a command was refused, without the text of the command.
func (n *Node) refused(agent, id string, err error) {
	if !n.warns.Allow() {
		return
	}
	var quiet any = err
	if d, ok := policy.AsDenied(err); ok {
		quiet = d.LogValue()
	}
	if errors.Is(err, corral.ErrApproval) {
		n.guard.cfg.Log.Info("a command waits for an approval on this node", "agent", agent, "process", id)
		return
	}
	n.guard.cfg.Log.Warn("refused a command of the gateway", "agent", agent, "process", id, "error", quiet)
}

// notUsed notes that the command of an approval certainly did not start, so that the
// same command may try again.
func (n *Node) notUsed(id string) {
	const most = 1000
	if id == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unused) >= most {
		clear(n.unused)
	}
	n.unused[id] = true
}

func (n *Node) takeUnused(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	unused := n.unused[id]
	delete(n.unused, id)
	return unused
}

// ofNode is a process of a Node.
type ofNode struct {
	corral.Process
	node *Node
	info corral.Info
}

func (n *Node) wrap(p corral.Process, warnings []string) corral.Process {
	info := p.Info()
	info.Warnings = slices.Concat(info.Warnings, warnings)
	return &ofNode{Process: p, node: n, info: info}
}

func (p *ofNode) Info() corral.Info { return p.info }

// Unwrap lets package origin find the process behind it.
func (p *ofNode) Unwrap() corral.Process { return p.Process }

func (p *ofNode) Remove(ctx context.Context) error {
	unlock, err := p.node.locks.Take(ctx, p.info.ID)
	if err != nil {
		return err
	}
	defer unlock()
	return p.Process.Remove(ctx)
}
