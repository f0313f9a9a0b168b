package guard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/recent"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// Config of a Guard. Settings, File and Plan are required.
type Config struct {
	// Settings returns the current configuration.
	Settings func() *config.Config
	// File is the host's approvals file.
	File *approval.File
	// Desk is where approvals are asked for. Nil: there are no approvals, and
	// AskFallback applies at once.
	Desk *approval.Desk
	// Plan says how the gateway would run a command, as
	// hostexec.Executor.Plan does.
	Plan func(context.Context, corral.Command) (pathenv.Plan, error)
	// Nodes decide on commands that go to them. Nil: such commands are decided on by
	// their text alone.
	Nodes Nodes
	// Caller names the right by which a command with that context is asked for; see
	// approval.Note. Nil: every command is asked for by every right.
	Caller func(context.Context) string

	// View is the file system of the gateway. Nil: policy.OS.
	View policy.View
	// Home is the home directory that ~ stands for in rules and commands.
	Home string
	// Overrides keeps what /exec set for agents. Nil: nothing is overridden.
	Overrides *Overrides

	Log *slog.Logger
}

// A Guard decides on the commands of all agents. Its methods may be called from
// any goroutine.
type Guard struct {
	cfg   Config
	using turn.Lock         // held while an approval is used up
	ran   *recent.Map[bool] // whether a command began that used an approval, by agent and ID

	mu             sync.Mutex
	attended       map[string]int               // how many calls wait for an approval; the call then runs the command itself
	denialReported map[string]bool              // denied approvals whose call has been told so
	env            map[string]map[string]string // environments of commands that wait, by approval
}

// New returns a guard.
func New(cfg Config) *Guard {
	if cfg.View == nil {
		cfg.View = policy.OS{}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Guard{cfg: cfg, using: turn.New(), ran: recent.New[bool](maxRan), attended: map[string]int{}, denialReported: map[string]bool{}, env: map[string]map[string]string{}}
}

// For returns the guard of an agent's Router.
func (g *Guard) For(agent string) corral.Guard {
	return func(ctx context.Context, cmd corral.Command, route corral.Route) (corral.Command, error) {
		out, err := g.check(ctx, agent, cmd, route)
		g.log(ctx, agent, out, route, err)
		return out, err
	}
}

// log logs the decision on a command. The command's ID is that of its session. Its text
// is not logged, since it may contain secrets.
func (g *Guard) log(ctx context.Context, agent string, cmd corral.Command, route corral.Route, err error) {
	attrs := []slog.Attr{slog.String("session", cmd.ID), slog.String("agent", agent), slog.String("host", string(route.Host))}
	if route.Node != "" {
		attrs = append(attrs, slog.String("node", route.Node))
	}
	decision := string(policy.Allowed)
	pending, denied := (*approval.PendingError)(nil), (*policy.DeniedError)(nil)
	switch {
	case errors.As(err, &pending):
		decision, cmd.Approval = string(policy.Asked), pending.Record.ID
	case errors.As(err, &denied):
		decision = string(policy.Denied)
		if r := denied.Decision.Rule; r != nil {
			attrs = append(attrs, slog.String("rule", r.Pattern))
		}
	case err != nil:
		decision = "none" // the caller is told why
	}
	if cmd.Approval != "" {
		attrs = append(attrs, slog.String("approval", cmd.Approval))
	}
	g.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "a command was decided on", append(attrs, slog.String("decision", decision))...)
}

// check decides on a command, and asks for an approval if it needs one.
func (g *Guard) check(ctx context.Context, agent string, cmd corral.Command, route corral.Route) (corral.Command, error) {
	e, err := g.Explain(ctx, agent, cmd, route)
	if err != nil {
		return cmd, err
	}
	d := e.Decision
	switch {
	case d.Outcome == policy.Denied:
		return cmd, &policy.DeniedError{Decision: d, Reason: d.Reason}
	case e.node.answersForItself() && e.gateway.Outcome == policy.Allowed:
		return e.pinned(cmd), nil // the node asks its own operators when it starts the command
	case d.Outcome == policy.Allowed:
		if err := g.spent(ctx, agent, cmd, e); err != nil {
			return cmd, err
		}
		if g.cfg.File != nil && e.Route.Host != corral.HostNode {
			g.cfg.File.Used(e.text(), d)
		}
		return e.pinned(cmd), nil
	}
	return g.ask(ctx, agent, cmd, e)
}

// spent uses up the approval of a command that rules allow by now, for example after
// allow-always. Otherwise another command could use the approval, or the command could
// run once more after a restart. An expired approval is not needed.
func (g *Guard) spent(ctx context.Context, agent string, cmd corral.Command, e Explanation) error {
	if cmd.Approval == "" || g.cfg.Desk == nil {
		return nil
	}
	rec, err := g.cfg.Desk.Get(agent, cmd.Approval)
	if err != nil || rec.State == approval.Expired {
		return err
	}
	claim, err := g.claimOf(agent, cmd, e)
	if err != nil {
		return err
	}
	return g.use(ctx, rec, claim)
}

// claimOf is the claim of a command, bound to its files and environment as they are now.
func (g *Guard) claimOf(agent string, cmd corral.Command, e Explanation) (approval.Claim, error) {
	claim := approval.Claim{CommandID: cmd.ID, Agent: agent, Host: e.Route.Host, Node: e.Route.Node}
	var err error
	switch {
	case e.node != nil:
		claim.Binding, err = e.node.bind(e.Request, cmd.Env)
	case e.Route.Sandboxed: // its files are not looked at
		claim.Binding = approval.BindOnNode(e.Request, cmd.Env, "", approval.Binding{}, "")
	default:
		claim.Binding, err = approval.Bind(e.Request, e.Decision, cmd.Env, g.cfg.View)
	}
	return claim, err
}

// ask uses the approval that a command has, or asks for one and returns a PendingError.
func (g *Guard) ask(ctx context.Context, agent string, cmd corral.Command, e Explanation) (corral.Command, error) {
	d := e.Decision
	if g.cfg.Desk == nil || e.Unattended {
		if cmd.Approval == "" {
			return g.fallback(cmd, e, "nobody can be asked")
		}
	}
	claim, err := g.claimOf(agent, cmd, e)
	if err != nil {
		return cmd, &policy.DeniedError{Decision: d, Reason: d.Reason + "; and it cannot be approved: " + err.Error()}
	}
	if cmd.Approval != "" {
		return g.claim(ctx, cmd, e, claim)
	}
	if e.node != nil && e.node.id != "" {
		cmd.Node = e.node.id // it must run on this node later, even if the name moves to another
	}
	note, err := g.note(ctx, cmd, e)
	if err != nil {
		return cmd, err
	}
	for _, rec := range g.cfg.Desk.List(approval.Filter{Agent: agent, State: approval.Allowed}) {
		if g.cfg.Desk.Usable(rec) && rec.Check(claim) == nil {
			cmd.Approval = rec.ID // an earlier, unused approval of the same command
			return g.claim(ctx, cmd, e, claim)
		}
	}
	id := corral.NewID()
	if note != nil {
		g.remember(id, cmd) // before anyone can allow it
	}
	rec, err := g.cfg.Desk.Ask(ctx, approval.Request{
		ID: id, Agent: agent, Host: e.Route.Host, Node: e.Route.Node, Command: e.Request, Description: cmd.Description, PathPrepend: cmd.PathPrepend, Decision: d, Binding: claim.Binding, Note: note,
		Again: func(further []policy.Rule) policy.Decision { return e.again(further) }, Previews: e.previews(),
	})
	if rec.ID != id { // an error, or it is pending already
		g.forget(id)
	}
	if err != nil {
		return cmd, err
	}
	if note != nil && rec.ID != id {
		g.remember(rec.ID, cmd)
	}
	return cmd, &approval.PendingError{Record: rec}
}

// claim uses an approval up.
func (g *Guard) claim(ctx context.Context, cmd corral.Command, e Explanation, claim approval.Claim) (corral.Command, error) {
	if g.cfg.Desk == nil {
		return cmd, corral.Errorf(corral.ErrInvalid, "leave the approval out", "there are no approvals here")
	}
	rec, err := g.cfg.Desk.Get(claim.Agent, cmd.Approval)
	if err != nil {
		return cmd, err
	}
	if rec.State == approval.Expired {
		// It says nothing about another command, which people could still deny.
		if err := rec.Check(claim); err != nil {
			return cmd, err
		}
		if rec.Verdict != "" {
			return g.fallback(cmd, e, "the one it had was not used in time")
		}
		return g.fallback(cmd, e, "nobody answered in time")
	}
	if err := g.use(ctx, rec, claim); err != nil {
		return cmd, err
	}
	return e.granted(cmd, rec)
}

// fallback applies askFallback to a command for which there is no approval.
func (g *Guard) fallback(cmd corral.Command, e Explanation, why string) (corral.Command, error) {
	d := e.Decision
	if d.Fallback == policy.Allowed {
		g.cfg.Log.Info("a command runs by askFallback", "reason", why)
		return e.granted(cmd, approval.Record{})
	}
	return cmd, &policy.DeniedError{Decision: d, Reason: d.Reason + "; it needs an approval, " + why + ", and askFallback is " +
		string(d.AskFallback.Value) + " (" + d.AskFallback.Source.String() + ")"}
}

// An Explanation is everything about a decision.
type Explanation struct {
	api.Explanation
	Request policy.Request
	Plan    pathenv.Plan

	rules policy.Rules
	view  policy.View
	alone approval.Settings // the settings of this machine, without those of the call

	forGateway bool            // this machine is the node: the gateway starts the command, also after an approval
	on         corral.Executor // the executor on this node, if forGateway

	node    *nodeSide       // the node that the command is for; nil: this machine
	gateway policy.Decision // the decision of this gateway by the text, if node is set
}

// Explain decides on a command and says why. It starts nothing and asks for no
// approval; for a command that goes to a node, it asks the node. It returns an error if
// the command is invalid or the node cannot be asked.
func (g *Guard) Explain(ctx context.Context, agent string, cmd corral.Command, route corral.Route) (Explanation, error) {
	if route.Host == corral.HostNode {
		return g.explainForNode(ctx, agent, cmd, route)
	}
	return g.explainHere(ctx, agent, cmd, route, policy.Source{Name: "the call"})
}

// explainHere decides on a command for this machine, or for the sandbox. It is at
// least as strict as the caller wants.
func (g *Guard) explainHere(ctx context.Context, agent string, cmd corral.Command, route corral.Route, caller policy.Source) (Explanation, error) {
	e, settings, err := g.begin(agent, cmd, route, caller)
	if err != nil {
		return e, err
	}
	rules := settings.Tools.Exec.Policy()
	host, _ := g.host(&e)
	e.Host = host.Settings
	e.Warnings = append(e.Warnings, host.Warnings...)
	effective := approval.Effective(e.Requested, e.Host)
	e.alone = approval.Effective(approval.Settings{Security: settings.Tools.Exec.Security, Ask: settings.Tools.Exec.Ask}, e.Host)
	rules.Security, rules.Ask, rules.AskFallback = effective.Security, effective.Ask, effective.AskFallback
	rules.List = append(rules.List[:len(rules.List):len(rules.List)], host.Rules...)

	e.rules, e.view = rules, g.cfg.View
	if route.Sandboxed {
		// The programs in the sandbox are not known here, and no policy applies
		// in it.
		e.Request, e.view = textOf(cmd), policy.Nothing{}
	} else {
		if e.Plan, err = g.cfg.Plan(pathenv.WithRules(ctx, EnvRules(settings.Tools.Exec)), cmd); err != nil {
			return e, err
		}
		path, _ := e.Plan.Env.Lookup("PATH")
		e.Request = policy.Request{Command: cmd.Shell, Args: cmd.Args, Dir: e.Plan.Dir, Path: path, Home: g.cfg.Home, Workspace: e.Plan.Workspace, TTY: cmd.TTY != nil, Stdin: cmd.Stdin, Env: g.variables(settings, cmd, path)}
		if dir := settings.Workspace.Value; dir != "" && route.Host == corral.HostGateway {
			e.Request.Workspace = dir
			if rest, ok := strings.CutPrefix(dir, "~/"); ok {
				e.Request.Workspace = filepath.Join(g.cfg.Home, rest)
			}
		}
		if cmd.Shell != "" {
			e.Request.Shell = e.Plan.Args[:len(e.Plan.Args)-1]
		}
	}
	e.Decision = e.again(nil)
	return e, nil
}

// variables are the variables that the call sets. If the call puts directories before
// PATH that are not configured, PATH is one of them: programs look up other programs
// there.
func (g *Guard) variables(settings config.Agent, cmd corral.Command, path string) map[string]string {
	own := settings.Tools.Exec.PathPrepend.Value
	there := strings.Split(path, ":")
	if !slices.ContainsFunc(cmd.PathPrepend, func(dir string) bool {
		configured := func(d string) bool { return config.ExpandHome(d, g.cfg.Home) == dir }
		return slices.Contains(there, dir) && !slices.ContainsFunc(own, configured)
	}) {
		return cmd.Env
	}
	env := maps.Clone(cmd.Env)
	if env == nil {
		env = map[string]string{}
	}
	env["PATH"] = path // also if the call sets one: that is behind the directories
	return env
}

// begin makes the part of an Explanation that needs no file and no node.
func (g *Guard) begin(agent string, cmd corral.Command, route corral.Route, caller policy.Source) (Explanation, config.Agent, error) {
	e := Explanation{Explanation: api.Explanation{Agent: agent, Route: route, Guarded: route.Guarded}}
	requested, err := asked(cmd, caller)
	if err != nil {
		return e, config.Agent{}, err
	}
	settings := g.settings(agent)
	e.Unattended = settings.Unattended.Value
	e.Requested = tighten(settings.Tools.Exec, requested, elevated(settings, cmd, route))
	if settings.Err != nil {
		e.Warnings = append(e.Warnings, "The configuration cannot be used, so that nothing may run: "+config.FirstLine(settings.Err)+".")
	}
	return e, settings, nil
}

// host returns the settings and rules of this machine's approvals file. If the file
// cannot be used, they are such that nothing may run.
func (g *Guard) host(e *Explanation) (host approval.Host, usable bool) {
	if g.cfg.File == nil {
		return host, true
	}
	host, err := g.cfg.File.Rules(e.Agent)
	if err != nil {
		e.Warnings = append(e.Warnings, "The approvals file cannot be used, so that nothing may run: "+err.Error()+".")
	}
	return host, err == nil
}

// textOf is a request with the command alone, without anything of the machine.
func textOf(cmd corral.Command) policy.Request {
	r := policy.Request{Command: cmd.Shell, Args: cmd.Args, Dir: cmd.Dir, Path: strings.Join(cmd.PathPrepend, ":"), TTY: cmd.TTY != nil, Stdin: cmd.Stdin, Env: cmd.Env}
	if cmd.Shell != "" {
		r.Shell = []string{"/bin/sh", "-lc"}
	}
	return r
}

// again decides with further rules.
func (e *Explanation) again(further []policy.Rule) policy.Decision {
	rules := e.rules
	rules.List = append(rules.List[:len(rules.List):len(rules.List)], further...)
	return policy.Decide(e.Request, rules, e.view)
}

// Would decides on a command for this machine as it is decided on now, and as it would
// be by changed rules. Nothing is started or asked.
func (g *Guard) Would(ctx context.Context, agent string, cmd corral.Command, route corral.Route, change func([]policy.Rule) []policy.Rule) (now, then policy.Outcome, err error) {
	e, err := g.explainHere(ctx, agent, cmd, route, policy.Source{Name: "the call"})
	if err != nil {
		return "", "", err
	}
	changed := e
	changed.rules.List = change(slices.Clone(e.rules.List))
	return e.Decision.Outcome, changed.again(nil).Outcome, nil
}

// EnvRules are the environment rules of this machine's executor, from its configuration.
func EnvRules(exec config.Exec) pathenv.Rules {
	return pathenv.Rules{EnvPath: exec.EnvPath.Value, Keep: exec.EnvAllow.Value}
}

func (g *Guard) settings(agent string) config.Agent {
	settings := g.cfg.Settings().Agent(agent)
	if g.cfg.Overrides != nil {
		settings = settings.With(g.cfg.Overrides.Get(agent))
	}
	return settings
}

// asked is the settings that a call or a gateway requests.
func asked(cmd corral.Command, call policy.Source) (approval.Settings, error) {
	s := approval.Settings{
		Security: policy.Setting[policy.Security]{Value: policy.Security(cmd.Security), Source: call},
		Ask:      policy.Setting[policy.Ask]{Value: policy.Ask(cmd.Ask), Source: call},
	}
	switch {
	case cmd.Security != "" && !s.Security.Value.Valid():
		return s, corral.Errorf(corral.ErrInvalid, "use deny, allowlist or full", "security: there is no %q", cmd.Security)
	case cmd.Ask != "" && !s.Ask.Value.Valid():
		return s, corral.Errorf(corral.ErrInvalid, "use off, on-miss or always", "ask: there is no %q", cmd.Ask)
	}
	return s, nil
}

// elevated is the settings for a command that left the sandbox at the level full; nil
// for all other commands.
func elevated(settings config.Agent, cmd corral.Command, route corral.Route) *approval.Settings {
	wanted := cmd.Elevated
	if route.Reason != corral.RouteElevated || settings.Tools.Elevated.Level(&wanted) != config.ElevatedFull {
		return nil
	}
	source := policy.Source{Name: "elevated=full"}
	return &approval.Settings{
		Security: policy.Setting[policy.Security]{Value: policy.SecurityFull, Source: source},
		Ask:      policy.Setting[policy.Ask]{Value: policy.AskOff, Source: source},
	}
}

// tighten is the settings of the configuration, made stricter by the call.
func tighten(exec config.Exec, call approval.Settings, elevated *approval.Settings) approval.Settings {
	configured := approval.Settings{Security: exec.Security, Ask: exec.Ask, AskFallback: exec.AskFallback}
	if elevated != nil {
		configured.Security, configured.Ask = elevated.Security, elevated.Ask
	}
	return approval.Effective(configured, call)
}

// pinned is the command with the programs that were decided on. With security=full it
// stays as it is. A command for a node gets the gateway's Security and Ask; the node pins
// the programs itself.
func (e *Explanation) pinned(cmd corral.Command) corral.Command {
	if e.node != nil {
		cmd.Security, cmd.Ask = string(e.Requested.Security.Value), string(e.Requested.Ask.Value)
		return cmd
	}
	if e.Decision.Run != nil && e.Decision.Security.Value != policy.SecurityFull {
		cmd.Decided.Exec = e.Decision.Run.Args
		if enforce := e.Decision.Enforce; enforce != nil {
			cmd.Domain = enforce.Domain
		}
	}
	return cmd
}

func (e *Explanation) text() string {
	if e.Request.Command != "" {
		return e.Request.Command
	}
	return policy.QuotePattern(e.Request.Args...)
}
