package guard

import (
	"context"
	"errors"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// Why a command runs without a decision.
const (
	inSandbox  = "it runs in a sandbox, which is its own boundary"
	sandboxOff = "the sandbox is off, and without one nothing is asked"
)

// Report decides on a routed command and describes the decision in full. Like Explain it
// changes nothing. The plan is set for a command for this machine. If the command cannot
// run, the Report says so; the error is ErrInvalid, for an invalid command.
func (g *Guard) Report(ctx context.Context, agent string, cmd corral.Command, route corral.Route) (r api.Report, plan pathenv.Plan, err error) {
	e, err := g.Explain(ctx, agent, cmd, route)
	if err != nil {
		r, err = Refusal(agent, cmd, route, err)
		return r, plan, err
	}
	r = api.Report{
		Explanation: e.Explanation, Outcome: e.Decision.Outcome, Reason: e.Decision.Reason, Fix: e.Decision.Fix,
		Command: cmd.Shell, Args: cmd.Args, Shell: e.Request.Shell, Cwd: e.Request.Dir,
	}
	if route.Sandboxed && r.Cwd == "" {
		r.Cwd = "/workspace"
	}
	if rules := suggested(r.Fix); len(rules) > 0 && e.Guarded {
		if remark := e.missing(rules, r.Fix); remark != "" {
			r.Fix = append(r.Fix[:len(r.Fix):len(r.Fix)], remark)
		}
	}
	switch {
	case e.node == nil || !e.node.silent:
	case e.node.id != "": // the node was asked
		r.Warnings = append(r.Warnings, "Which programs there are cannot be seen from here, and the node has no policy of its own: this decision is all there is.")
	default:
		r.Warnings = append(r.Warnings, "Which programs there are the node alone knows, and it decides for itself as well.")
	}
	switch {
	case route.Sandboxed:
		r.Outcome, r.Reason, r.Fix = policy.Allowed, inSandbox, nil
	case !e.Guarded:
		r.Outcome, r.Reason, r.Fix = policy.Allowed, sandboxOff, nil
	case r.Outcome == policy.Asked:
		if e.Unattended && !e.node.answersForItself() {
			r.Outcome = e.Decision.Fallback
			r.Reason += "; nobody can be asked for this agent, and askFallback is " + string(e.Decision.AskFallback.Value)
			break
		}
		if r.Previews = e.previews(); e.node != nil {
			break
		}
		r.Previews = approval.Previews(e.Request, e.Decision, e.again)
		if e.Decision.Ask.Value == policy.AskAlways {
			for i := range r.Previews {
				r.Previews[i] = approval.Preview{Scope: r.Previews[i].Scope, Unavailable: "an approval is required every time"}
			}
		}
	}
	return r, e.Plan, nil
}

// missing says why the command would still not be allowed after all suggested rules are
// added; empty: it would be.
func (e *Explanation) missing(rules []policy.Rule, fix []string) string {
	with := *e
	for _, f := range fix {
		switch {
		case strings.HasSuffix(f, "set allowlist.chaining: each"):
			with.rules.Chaining.Value = true
		case strings.HasSuffix(f, "set allowlist.redirections: harmless"):
			with.rules.Redirections.Value = true
		}
	}
	if with.again(rules).Outcome == policy.Allowed {
		return ""
	}
	if ask := &with.rules.Ask; ask.Value == policy.AskAlways {
		ask.Value = policy.AskOnMiss
		if with.again(rules).Outcome == policy.Allowed {
			return "rules alone do not allow it: set ask to on-miss where it says always: " + ask.Source.String()
		}
	}
	return "rules alone do not allow it: write it without what is refused, or have it approved"
}

// suggested are the rules in the fixes of a decision.
func suggested(fix []string) []policy.Rule {
	var rules []policy.Rule
	for _, f := range fix {
		if r, ok := policy.FixedBy(f); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// Refusal is the api.Report of a command that is refused before a decision.
func Refusal(agent string, cmd corral.Command, route corral.Route, why error) (api.Report, error) {
	if errors.Is(why, corral.ErrInvalid) {
		return api.Report{}, why
	}
	r := api.Report{
		Explanation: api.Explanation{Agent: agent, Route: route, Guarded: route.Guarded},
		Outcome:     policy.Denied, Reason: why.Error(), Command: cmd.Shell, Args: cmd.Args,
	}
	if hint := corral.Hint(why); hint != "" {
		r.Fix = []string{hint}
	}
	// There is no decision. Fill one in that cannot be mistaken for Allowed.
	r.Decision = policy.Decision{Outcome: policy.Denied, Reason: r.Reason, Fix: r.Fix, Segments: []policy.Segment{}, Fallback: policy.Denied}
	return r, nil
}
