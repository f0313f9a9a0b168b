package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/session"
)

// A hostPolicy is the policy of a gateway's agents, as the API has it.
type hostPolicy struct{ hosts *hosts }

// Explain is what a gateway would say of a command that is started here and now. It
// reads the files, and starts and changes nothing.
func Explain(ctx context.Context, opt Options, stateDir string, nodes guard.Nodes, agent string, cmd corral.Command, e gateway.ExplainOptions) (r api.Report, err error) {
	o := &opt
	p, err := policyFiles(o, stateDir)
	if err != nil {
		return r, err
	}
	ex, err := o.Backends.Lone(HostOptions{Workspace: o.Settings.Workspace.Dir, Environ: o.Environ})
	if err != nil {
		return r, errors.Join(err, p.close())
	}
	p.decide(ex, nodes)
	h := newHosts(o, stateDir, ex)
	h.nodes, h.policies = nodeexec.None{}, p
	h.timeout = func(c config.Agent) time.Duration { return c.Tools.Exec.Timeout.Value }
	defer func() { err = errors.Join(err, h.Close()) }()
	return hostPolicy{h}.Explain(ctx, agent, cmd, e)
}

// Explain implements gateway.Policy.
func (h hostPolicy) Explain(ctx context.Context, agent string, cmd corral.Command, o gateway.ExplainOptions) (api.Report, error) {
	if err := cmd.Validate(); err != nil {
		return api.Report{}, err
	}
	on := h.hosts.of(agent)
	c := h.hosts.policies.agent(agent)
	route, err := on.Route(ctx, cmd)
	if err == nil {
		err = c.Tools.Check(config.ToolExec)
	}
	if err != nil {
		return guard.Refusal(agent, cmd, route, err)
	}
	placed, err := on.placed(ctx, c, cmd, route)
	if err != nil {
		return guard.Refusal(agent, cmd, route, err)
	}
	r, plan, err := h.hosts.policies.guard.Report(ctx, agent, placed, route)
	if err != nil {
		return r, err
	}
	if h.hosts.timeout != nil {
		limit := h.hosts.timeout(c).Seconds()
		r.TimeoutSeconds = &limit
	}
	if r.Outcome != policy.Allowed {
		r.Commands = h.hosts.opt.changes(h.hosts.policies.live.Config(), r.Decision)
		if len(r.Commands) == 0 && route.Host == corral.HostNode {
			r.Commands = changesOnNode(agent, r.Decision.Fix)
			r.OnNode = len(r.Commands) > 0
		}
	}
	if o.Environment && plan.Env.Vars != nil {
		d := plan.Env.Describe(cmd.Env, o.Values)
		r.Environment = &d
	}
	return r, nil
}

// Would implements gateway.Policy.
func (h hostPolicy) Would(ctx context.Context, agent string, cmd corral.Command, change func([]policy.Rule) []policy.Rule) (now, then policy.Outcome, err error) {
	on := h.hosts.of(agent)
	route, err := on.Route(ctx, cmd)
	if err != nil {
		return "", "", err
	}
	if !route.Guarded || route.Host != corral.HostGateway {
		return "", "", errors.ErrUnsupported
	}
	placed, err := on.placed(ctx, h.hosts.policies.agent(agent), cmd, route)
	if err != nil {
		return "", "", err
	}
	return h.hosts.policies.guard.Would(ctx, agent, placed, route, change)
}

// changes are the calls of corral that make what a decision wants changed.
func (o *Options) changes(c *config.Config, d policy.Decision) []string {
	if c.Err != nil || c.File == "" {
		return nil
	}
	set := "corral config set "
	if c.File != o.Config.Default {
		set = "corral --config " + words.Quote(c.File) + " config set "
	}
	var rules []json.RawMessage
	if v, err := c.Get("tools.exec.rules"); err == nil {
		_ = json.Unmarshal(v.Value, &rules) // it is a list, or null
	}
	var lines []string
	add := func(key, value string) {
		if line := set + words.Quote(key) + " " + words.Quote(value); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, fix := range d.Fix {
		if rule, ok := strings.CutPrefix(fix, "add the rule "); ok {
			if next := len(rules); next == 0 {
				add("tools.exec.rules", "["+rule+"]")
			} else {
				add(fmt.Sprintf("tools.exec.rules[%d]", next), rule)
			}
			rules = append(rules, nil)
		}
		for option, key := range map[string]string{"allowlist.chaining: each": "chaining", "allowlist.redirections: harmless": "redirections"} {
			if _, value, ok := strings.Cut(option, ": "); ok && strings.HasSuffix(fix, "set "+option) {
				add("tools.exec.allowlist."+key, value)
			}
		}
	}
	if s := d.Security; s.Value == policy.SecurityDeny && s.Source.File == c.File && s.Source.Key != "" {
		add(s.Source.Key, string(policy.SecurityAllowlist))
	}
	return lines
}

// changesOnNode are the calls of corral on a node that make what its decision wants
// changed: rules of its approvals file.
func changesOnNode(agent string, fix []string) []string {
	add := "corral approvals add "
	if agent != session.DefaultAgent {
		add += "--agent " + words.Quote(agent) + " "
	}
	var lines []string
	for _, f := range fix {
		_, fix, ok := strings.Cut(f, ": ")
		if !ok || !strings.HasPrefix(f, "on node ") {
			continue
		}
		switch r, ok := policy.FixedBy(fix); {
		case !ok:
		case r.Args == nil:
			lines = append(lines, add+words.Quote(r.Pattern))
		default:
			lines = append(lines, add+"--exact "+words.Quote(strings.TrimSpace(r.Pattern+" "+policy.QuotePattern(r.Args...))))
		}
	}
	return lines
}

// Overrides implements gateway.Policy.
func (h hostPolicy) Overrides(agent string) config.Overrides { return h.hosts.policies.over.Get(agent) }

// Current implements gateway.Policy.
func (h hostPolicy) Current(ctx context.Context, recs []approval.Record) []approval.Record {
	return h.hosts.policies.guard.Current(ctx, recs)
}

// SetOverrides implements gateway.Policy.
func (h hostPolicy) SetOverrides(agent string, to config.Overrides) error {
	if c := h.hosts.policies.live.Config(); c.Err != nil {
		return corral.Errorf(corral.ErrDenied, ClosedHint(c.Err),
			"the configuration cannot be used, so that nothing may run: %s", config.FirstLine(c.Err))
	}
	return h.hosts.policies.over.Set(agent, to)
}

// CheckSender implements gateway.Policy.
func (h hostPolicy) CheckSender(s config.Sender) error {
	return h.hosts.policies.live.Config().Commands.CheckSender(s)
}

// Say implements gateway.Policy.
func (h hostPolicy) Say(ctx context.Context, agent, text, bot, by string) (string, error) {
	said := strings.Fields(text)
	if len(said) == 0 {
		said = []string{""}
	}
	word, name, addressed := strings.Cut(said[0], "@") // as in groups
	switch strings.ToLower(strings.TrimSuffix(word, ":")) {
	case "/exec":
		if addressed && !strings.EqualFold(name, bot) {
			return "", corral.Errorf(corral.ErrInvalid, "", "the command is for %s", words.Short(name, 60))
		}
		said[0] = "/exec"
		return h.sayExec(agent, strings.Join(said, " "))
	case "/approve":
		return h.sayApprove(ctx, agent, text, bot, by)
	}
	return "", corral.Errorf(corral.ErrInvalid, "say /exec host=gateway ask=always, or /approve ID allow-once", "%q is no command", words.Short(word, 60))
}

func (h hostPolicy) sayExec(agent, text string) (string, error) {
	next, changed, err := h.Overrides(agent).Apply(text)
	if err != nil {
		return "", err
	}
	if changed {
		if err := h.SetOverrides(agent, next); err != nil {
			return "", err
		}
	}
	return overridesText(h.Overrides(agent), h.hosts.policies.agent(agent).Tools.Exec, changed), nil
}

// overridesText says what calls go by that say nothing.
func overridesText(o config.Overrides, exec config.Exec, changed bool) string {
	now := fmt.Sprintf("host=%s security=%s ask=%s node=%s", exec.Host.Value, exec.Security.Value, exec.Ask.Value, cmp.Or(exec.Node.Value, "(none)"))
	switch {
	case o == (config.Overrides{}) && changed:
		return "Exec defaults are as configured again: " + now + "."
	case o == (config.Overrides{}):
		return "Exec defaults are as configured: " + now + "."
	case changed:
		return "Exec defaults set (" + o.String() + "). They are now: " + now + "."
	}
	return "Exec defaults: " + now + " (set by /exec: " + o.String() + ")."
}

func (h hostPolicy) sayApprove(ctx context.Context, agent, text, bot, by string) (string, error) {
	reply, err := approval.ParseReply(text, bot)
	if err != nil {
		return "", err
	}
	desk := answers{h.hosts.policies.desk}
	rec, err := desk.Get(agent, reply.ID)
	if err != nil {
		return "", err
	}
	rec, err = desk.Answer(ctx, rec.ID, approval.Answer{Decision: reply.Verdict, Scope: reply.Scope, By: by})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Approval %s: %s.", rec.Slug, rec.Settled()), nil
}
