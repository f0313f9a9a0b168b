package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// Nodes are machines that decide for themselves. Package nodeexec implements it.
type Nodes interface {
	// Decide asks a node for its decision on an agent's command. node is any name
	// that selects it. Decide returns the node's id and full name, and the answer that
	// Node.Decide made. The error is errors.ErrUnsupported for a node without a policy
	// of its own; id and name are then set too, if they are known. It wraps
	// corral.ErrNoNode if there is no such node.
	Decide(ctx context.Context, node, agent string, cmd corral.Command) (id, name string, answer []byte, err error)
}

// nodeSide is the node of a command, and its answer.
type nodeSide struct {
	id, name string
	silent   bool // it has no policy of its own
	answer   answer
}

// answersForItself reports whether only the node's own operators approve.
func (n *nodeSide) answersForItself() bool { return n != nil && n.answer.Local }

// explainForNode decides on a command for a node. It first decides here by the text; if
// that denies the command, the node is not asked. Then the node decides, which can only
// make the result stricter.
func (g *Guard) explainForNode(ctx context.Context, agent string, cmd corral.Command, route corral.Route) (Explanation, error) {
	e, settings, err := g.begin(agent, cmd, route, policy.Source{Name: "the call"})
	if err != nil {
		return e, err
	}
	// The approvals file is that of this machine. Its deny rules for an agent apply to
	// nodes too; its allow rules do not.
	host, usable := g.host(&e)
	e.Warnings = append(e.Warnings, host.Warnings...)
	if !usable {
		e.Requested = approval.Effective(e.Requested, host.Settings)
	}
	e.rules, e.view = settings.Tools.Exec.Policy(), policy.Nothing{}
	e.rules.Security, e.rules.Ask, e.rules.AskFallback = e.Requested.Security, e.Requested.Ask, e.Requested.AskFallback
	e.rules.List = slices.Concat(e.rules.List, slices.DeleteFunc(slices.Clone(host.Rules), func(r policy.Rule) bool { return r.Action == policy.Allow }))
	e.node = &nodeSide{name: route.Node}
	e.Request = textOf(cmd)
	e.gateway = e.onText(e.Request, policy.Nothing{})
	e.Decision = e.gateway
	if e.gateway.Outcome == policy.Denied {
		return e, nil
	}
	var said []byte
	if g.cfg.Nodes != nil {
		e.node.id, e.node.name, said, err = g.cfg.Nodes.Decide(ctx, route.Node, agent, e.pinned(cmd))
		e.node.name = cmp.Or(e.node.name, route.Node)
		e.Route.Node = e.node.name
	}
	if g.cfg.Nodes == nil || errors.Is(err, errors.ErrUnsupported) {
		// Then only this policy decides, and it cannot see the programs.
		e.node.silent = true
		e.Decision = e.again(nil)
		return e, nil
	}
	if err != nil {
		return e, err
	}
	if e.node.answer, err = parseAnswer(e.node.name, said); err != nil {
		return e, err
	}
	a := &e.node.answer
	e.Route.Sandboxed = a.Sandboxed
	e.Warnings = append(e.Warnings, a.Warnings...)
	if a.Local {
		e.Warnings = append(e.Warnings, "Node "+e.node.name+" does not take approvals of a gateway: its own operators approve there.")
	}
	e.Request = policy.Request{Command: cmd.Shell, Args: cmd.Args, Shell: a.Shell, Dir: a.Dir, Path: a.Path, Home: a.Home, TTY: cmd.TTY != nil, Stdin: cmd.Stdin, Env: cmd.Env}
	// Decide again with the paths of programs that the node claims to have. Since they
	// are only a claim, the result counts only if it is stricter.
	if by := e.onText(e.Request, a.files()); stricter(by.Outcome, e.gateway.Outcome) {
		e.gateway = by
	}
	e.Decision = e.together()
	e.Warnings = append(e.Warnings, e.twoSides()...)
	return e, nil
}

// own is the strictness of this node without the gateway's settings; nil if these change
// nothing.
func (e *Explanation) own() *strictnessOf {
	d := e.Decision
	if e.alone.Security.Value == d.Security.Value && e.alone.Ask.Value == d.Ask.Value {
		return nil
	}
	return &strictnessOf{e.alone.Security, e.alone.Ask}
}

// twoSides lists the settings in which gateway and node differ, with both values.
func (e *Explanation) twoSides() []string {
	if e.Route.Sandboxed {
		return nil
	}
	node := strictnessOf{e.node.answer.Decision.Security, e.node.answer.Decision.Ask}
	if own := e.node.answer.Own; own != nil {
		node = *own
	}
	var list []string
	say := func(what, here, hereFrom, there, thereFrom string) {
		if here != there && there != "" {
			list = append(list, fmt.Sprintf("%s is %s at the gateway (%s), and %s on the node (%s): the stricter of the two counts.", what, here, hereFrom, there, thereFrom))
		}
	}
	say("Security", string(e.Requested.Security.Value), e.Requested.Security.Source.String(), string(node.Security.Value), node.Security.Source.String())
	say("Ask", string(e.Requested.Ask.Value), e.Requested.Ask.Source.String(), string(node.Ask.Value), node.Ask.Source.String())
	return list
}

// onText is the decision of this gateway's deny and ask rules on a command for a node.
// Whether the programs are allowed is for the node to decide.
func (e *Explanation) onText(req policy.Request, view policy.View) policy.Decision {
	rules := e.rules
	for _, s := range []*policy.Setting[policy.Security]{&rules.Security, &rules.AskFallback} {
		if s.Value == policy.SecurityAllowlist {
			s.Value = policy.SecurityFull
		}
	}
	d := policy.Decide(req, rules, view)
	d.Security, d.AskFallback = e.rules.Security, e.rules.AskFallback
	return d
}

var strictness = []policy.Outcome{policy.Allowed, policy.Asked, policy.Denied}

// stricter reports whether a is stricter than b.
func stricter(a, b policy.Outcome) bool {
	return slices.Index(strictness, a) > slices.Index(strictness, b)
}

// together is the stricter of this gateway's decision and the node's.
func (e *Explanation) together() policy.Decision {
	here, d := e.gateway, e.node.answer.Decision
	switch {
	case here.Outcome == policy.Denied:
		return here
	case d.Outcome == policy.Denied:
		return d
	}
	if here.Fallback != policy.Allowed || e.Requested.AskFallback.Value == policy.SecurityAllowlist && d.Miss {
		d.Fallback = policy.Denied
	}
	effective := approval.Effective(e.Requested, approval.Settings{Security: d.Security, Ask: d.Ask, AskFallback: d.AskFallback})
	d.Security, d.Ask, d.AskFallback = effective.Security, effective.Ask, effective.AskFallback
	if here.Outcome == policy.Asked {
		reason := here.Reason
		if d.Outcome == policy.Asked {
			reason += "; and " + d.Reason
		}
		d.Outcome, d.Reason, d.Rule, d.Fix = policy.Asked, reason, here.Rule, here.Fix
	}
	return d
}

// bind is the binding of an approval for the command.
func (n *nodeSide) bind(req policy.Request, env map[string]string) (approval.Binding, error) {
	switch a := &n.answer; {
	case n.silent:
		return approval.BindOnNode(req, env, cmp.Or(n.id, n.name), approval.Binding{}, ""), nil
	case a.Unbound != "":
		return approval.Binding{}, corral.Errorf(corral.ErrDenied, "", "node %s says: %s", n.name, a.Unbound)
	case a.Sum == "":
		return approval.Binding{}, corral.Errorf(corral.ErrDenied, "", "node %s does not say what an approval would be for", n.name)
	default:
		return approval.BindOnNode(req, env, n.id, a.Binding, a.Sum), nil
	}
}

// previews are the rules that allow-always would remember on a node; nil for a command
// that is not for a node: the desk then makes them itself.
func (e *Explanation) previews() []approval.Preview {
	switch {
	case e.node == nil:
		return nil
	case e.node.silent:
		return unavailable("the node has no policy of its own to remember it in")
	case e.node.answersForItself():
		return unavailable("the node remembers only what its own operators say")
	case e.gateway.Outcome == policy.Asked:
		return unavailable("the gateway asks about it every time: " + e.gateway.Reason)
	}
	return e.node.answer.Previews
}

// granted is the command with the grant for its node. A zero rec means that it runs by
// askFallback.
func (e *Explanation) granted(cmd corral.Command, rec approval.Record) (corral.Command, error) {
	cmd = e.pinned(cmd)
	if e.node == nil || e.node.silent {
		return cmd, nil
	}
	cmd.ID = cmp.Or(cmd.ID, corral.NewID())
	now := time.Now()
	g := grant{
		Approval: rec.ID, Slug: rec.Slug, Fallback: rec.ID == "", Agent: e.Agent, Command: cmd.ID, Binding: e.node.answer.Sum,
		By: rec.AnsweredBy, At: now.UnixMilli(), Until: now.Add(grantLife).UnixMilli(),
	}
	if rec.Verdict == approval.AllowAlways {
		g.Always = cmp.Or(rec.Scope, approval.ScopeExact)
	}
	var err error
	cmd.Decided.Grant, err = g.encode()
	return cmd, err
}
