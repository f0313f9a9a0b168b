package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/patch"
	"github.com/corral-exec/corral/tool/runshell"
)

// agentTools are all tools of an agent, as the configuration says at each call.
type agentTools struct {
	s     *Gateway
	agent string
	model string // where a call does not say which
}

// Call calls a tool. What an agent may not call is a result that says so; the
// error is ErrNotFound, for a tool that there is not.
func (t agentTools) Call(ctx context.Context, name string, arguments json.RawMessage) (tool.Result, error) {
	if ask := tool.ApproverOf(ctx); ask != nil {
		ctx = tool.WithApprover(ctx, func(ctx context.Context, rec approval.Record) (approval.Answer, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(t.s.stopping, cancel)()
			return ask(ctx, rec)
		})
	}
	switch name {
	case runshell.Name:
		return t.runShell(ctx, arguments)
	case patch.Name:
		return t.patch(ctx, arguments)
	case tool.ExecName, tool.ProcessName:
		return t.s.newTools(t.agent).Call(ctx, name, arguments)
	}
	return nil, corral.Errorf(corral.ErrNotFound, "the tools are "+words.Or(t.names(ctx)), "there is no tool %q", words.Short(name, 60))
}

func (t agentTools) names(ctx context.Context) []string {
	var names []string
	for _, d := range t.definitions(t.modelOf(ctx)) {
		names = append(names, d.Name)
	}
	return names
}

// Definitions are those of the tools that the agent has.
func (t agentTools) Definitions() []tool.Definition { return t.definitions(t.model) }

func (t agentTools) definitions(model string) []tool.Definition {
	list := t.s.newTools(t.agent).Definitions()
	c := t.config()
	if c.Tools.RunShellCommand.Enabled.Value && c.Tools.Check(config.ToolRunShellCommand) == nil {
		shell, err := runshell.New(runshell.Config{Executor: t.s.sessions.Agent(t.agent), Profile: profileOf(c), Dir: "/"})
		must(err) // nothing of it is configured
		list = append(list, shell.Definitions()...)
	}
	if ok, _ := patch.Enabled(model, patchSettings(c)); ok && c.Tools.Check(config.ToolApplyPatch) == nil {
		list = append(list, tool.Definition(patch.New(patch.Config{}).Definition()))
	}
	return list
}

func (t agentTools) config() config.Agent { return t.s.hosts.policies.agent(t.agent) }

// may says why an agent may not call a tool.
func may(c config.Agent, name config.Tool) error {
	if c.Err != nil {
		return unusable(c)
	}
	return c.Tools.Check(name)
}

func (t agentTools) modelOf(ctx context.Context) string {
	return cmp.Or(config.CallerFrom(ctx).Model, t.model)
}

func profileOf(c config.Agent) pathenv.Profile {
	return pathenv.Profile(c.Tools.RunShellCommand.Profile.Value)
}

func patchSettings(c config.Agent) patch.Settings {
	p := c.Tools.Exec.ApplyPatch
	return patch.Settings{Enabled: p.Enabled.Value, AllowModels: p.AllowModels.Value}
}

// shells are the tools run_shell_command of agents, which remember what was
// allowed.
type shells struct {
	mu   sync.Mutex
	made map[string]madeShell
}

type madeShell struct {
	of   string // what it was made by
	tool *runshell.Tool
}

// get returns an agent's, made anew if its settings have changed.
func (s *shells) get(agent, of string, make func() (*runshell.Tool, error)) (*runshell.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.made[agent]; ok && have.of == of {
		return have.tool, nil
	}
	t, err := make()
	if err != nil {
		return nil, err
	}
	if s.made == nil {
		s.made = map[string]madeShell{}
	}
	s.made[agent] = madeShell{of, t}
	return t, nil
}

func (t agentTools) runShell(ctx context.Context, arguments json.RawMessage) (tool.Result, error) {
	c := t.config()
	if c.Err == nil && !c.Tools.RunShellCommand.Enabled.Value {
		return nil, corral.Errorf(corral.ErrNotFound, "set tools.runShellCommand.enabled to true to have it", "there is no tool %q", runshell.Name)
	}
	shell, err := t.shell(ctx, c)
	if err != nil {
		text := err.Error()
		if hint := corral.Hint(err); hint != "" {
			text += ": " + hint
		}
		return runshell.Output{Error: &text}, nil
	}
	return shell.Call(ctx, runshell.Name, arguments)
}

func (t agentTools) shell(ctx context.Context, c config.Agent) (*runshell.Tool, error) {
	if err := may(c, config.ToolRunShellCommand); err != nil {
		return nil, err
	}
	route, err := t.s.hosts.of(t.agent).Route(ctx, corral.Command{Args: []string{"bash"}})
	if err != nil {
		return nil, err
	}
	set := c.Tools.RunShellCommand
	cfg := runshell.Config{
		Executor: askedStarts{session.Attended{Agent: t.s.sessions.Agent(t.agent)}, t.s.hosts.policies.guard}, Profile: profileOf(c),
		CoreTools: set.CoreTools.Value, ExcludeTools: set.ExcludeTools.Value,
		Timeout: t.s.timeout(c), Log: t.s.log,
	}
	switch {
	case route.Sandboxed:
		cfg.Dir = sandbox.Workdir
	case route.Host == corral.HostGateway:
		if cfg.Root, err = t.s.opt.workspaceOf(c); err != nil {
			return nil, err
		}
		cfg.Dir = cfg.Root
	default:
		return nil, corral.Errorf(errors.ErrUnsupported, "use exec there", "%s does not run on host %s", runshell.Name, route.Host)
	}
	// In profile asimi a person who can be asked is asked about everything that
	// coreTools do not have: without coreTools that would be every command.
	if !c.Unattended.Value && (cfg.Profile != pathenv.ProfileAsimi || len(cfg.CoreTools) > 0) {
		cfg.Approve = approver{t, route, cfg.Dir}.approve
	}
	of := fmt.Sprintf("%q", []any{cfg.Profile, cfg.CoreTools, cfg.ExcludeTools, cfg.Timeout, cfg.Root, cfg.Dir, route.Host, c.Unattended.Value})
	return t.s.shells.get(t.agent, of, func() (*runshell.Tool, error) { return runshell.New(cfg) })
}

// workspaceOf is where commands of an agent run on this machine.
func (o *Options) workspaceOf(c config.Agent) (string, error) {
	dir := o.SettingsOf(c).Workspace.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot find the working directory: %w", err)
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", corral.Errorf(corral.ErrDir, "give it in full", "cannot tell where the workspace %s is: %w", dir, err)
	}
	return abs, nil
}

func (t agentTools) patch(ctx context.Context, arguments json.RawMessage) (tool.Result, error) {
	c := t.config()
	set := patchSettings(c)
	if c.Err == nil && !set.Enabled {
		return nil, corral.Errorf(corral.ErrNotFound, "set tools.exec.applyPatch.enabled to true to have it", "there is no tool %q", patch.Name)
	}
	target, err := t.target(ctx, c, set)
	if err != nil {
		return refusedPatch(err), nil
	}
	return patch.New(patch.Config{Target: target}).Call(ctx, arguments), nil
}

// refusedPatch is the result of a patch that was not looked at.
func refusedPatch(err error) patch.Result {
	r := patch.Result{
		Status: patch.StatusFailed, Reason: patch.ReasonUnavailable, Error: words.OneLine(err.Error()), Hint: words.OneLine(corral.Hint(err)),
		Summary:  patch.Summary{Added: []string{}, Modified: []string{}, Deleted: []string{}},
		Warnings: []string{},
	}
	switch {
	case errors.Is(err, corral.ErrDenied):
		r.Status, r.Reason = patch.StatusDenied, patch.ReasonDenied
	case errors.Is(err, errors.ErrUnsupported):
		r.Reason = patch.ReasonUnsupported
	case errors.Is(err, corral.ErrDir):
		r.Reason = patch.ReasonWorkdir
	case errors.Is(err, corral.ErrInvalid):
		r.Reason = patch.ReasonInvalid
	}
	r.Message = r.Error + "\nNo file was changed."
	return r
}

// target is the workspace that the agent's commands see.
func (t agentTools) target(ctx context.Context, c config.Agent, set patch.Settings) (patch.Target, error) {
	if err := may(c, config.ToolApplyPatch); err != nil {
		return nil, err
	}
	if ok, why := patch.Enabled(t.modelOf(ctx), set); !ok {
		return nil, corral.Errorf(corral.ErrDenied, "use exec instead", "%s", why)
	}
	on := t.s.hosts.of(t.agent)
	cmd := corral.Command{Args: []string{patch.Name}}
	route, err := on.Route(ctx, cmd)
	if err != nil {
		return nil, err
	}
	switch {
	case route.Sandboxed:
		return on.sandboxTarget(ctx)
	case route.Host != corral.HostGateway:
		return nil, corral.Errorf(errors.ErrUnsupported, "use exec there", "%s does not work on host %s", patch.Name, route.Host)
	}
	if route.Guarded { // where nothing may run, nothing is to be changed
		e, err := t.s.hosts.policies.guard.Explain(ctx, t.agent, cmd, route)
		if err != nil {
			return nil, err
		}
		if s := e.Decision.Security; s.Value == policy.SecurityDeny {
			return nil, corral.Errorf(corral.ErrDenied, e.Decision.Fix[0], "security=deny (%s)", s.Source)
		}
	}
	dir, err := t.s.opt.workspaceOf(c)
	if err != nil {
		return nil, err
	}
	return patch.Directory{Path: dir}, nil
}

// sandboxTarget is the workspace of the agent's sandbox: from here if it is a
// directory of this machine, else by commands in it.
func (a *agentHosts) sandboxTarget(ctx context.Context) (patch.Target, error) {
	box := a.box(ctx)
	ex, err := box.get()
	if err != nil {
		return nil, err
	}
	all, err := FilesOf(ctx, ex, a.name)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if here, ok := all.(files.Sandbox); ok {
		if d, ok := here.Workspace.(files.Directory); ok {
			return patch.Directory{Path: d.Path, As: d.Root, ReadOnly: d.ReadOnly, User: d.User}, nil
		}
	}
	return box.commands(), nil
}

// timeout is how long a command of an agent may run that does not say; 0: as
// long as it likes.
func (s *Gateway) timeout(c config.Agent) time.Duration {
	if s.opt.Timeout != nil {
		return *s.opt.Timeout
	}
	return c.Tools.Exec.Timeout.Value
}

// tools are those of the API.
func (s *Gateway) tools(agent string) gateway.Tools { return apiTools{agentTools{s: s, agent: agent}} }

// apiTools are tools as the API has them.
type apiTools struct{ agentTools }

func (t apiTools) Call(ctx context.Context, name string, args json.RawMessage) (any, error) {
	return t.agentTools.Call(ctx, name, args)
}

func (t apiTools) List(ctx context.Context) []gateway.Tool {
	var list []gateway.Tool
	for _, d := range t.definitions(t.modelOf(ctx)) {
		in, err := json.Marshal(d.Input)
		must(err) // it was made from a Go type
		out, err := json.Marshal(d.Output)
		must(err)
		list = append(list, gateway.Tool{Name: d.Name, Title: d.Title, Description: d.Description, InputSchema: in, OutputSchema: out})
	}
	return slices.Clip(list)
}

// callerOf notes on whose behalf a request over MCP is made. What is malformed
// was refused before.
func (s *Gateway) callerOf(ctx context.Context, h http.Header) context.Context {
	ctx = access.WithGrant(s.mcp.whileOpen(ctx), s.keys.Grant(h.Get(api.HeaderKey)))
	caller, err := config.ParseCaller(h.Get(api.HeaderSender), h.Get(api.HeaderModel))
	if err != nil {
		return ctx
	}
	if caller.Session, err = config.ParseSession(h.Get(api.HeaderSession)); err != nil {
		return ctx
	}
	return config.WithCaller(ctx, caller)
}
