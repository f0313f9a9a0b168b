package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/mcp"
)

const mcpLong = `Serve the tools of an agent (exec, process and those that are configured) over the
Model Context Protocol, on standard input and output, for clients that start
their servers themselves.

If a gateway runs, it runs the commands, as it was told to: they and their
sessions outlive this process and restarts of the gateway, and are seen by
everybody who asks it. If none runs, this process is the gateway of the state
directory while it lives, without a socket; what it leaves running is found
by the next.`

func (a *app) mcpCommand() *cobra.Command {
	var agent, model string
	o := &gatewayFlags{}
	cmd := &cobra.Command{
		Use: "mcp [flags]", Short: "Serve the tools over MCP on standard input and output",
		Long: mcpLong, Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := onlyGiven(cmd.Flags(), gatewayOnly(cmd))
			return a.untilSignal(cmd.Context(), func(ctx context.Context) error {
				return a.serveMCP(ctx, agent, model, o, given)
			})
		},
	}
	a.addAgentFlag(cmd, &agent)
	cmd.Flags().StringVar(&model, "model", "", "`NAME`: that the client uses, such as openai/gpt-5.2; some tools are for some models")
	fromEnvironment(cmd.Flags(), "model")
	must(cmd.RegisterFlagCompletionFunc("model", cobra.NoFileCompletions))
	group(cmd.Flags(), groupServe, "agent", "model")
	a.addGatewayFlags(cmd, o)
	for _, name := range []string{"listen", "nodes", "nodes-websocket", "nodes-advertise"} {
		must(cmd.Flags().MarkHidden(name))
	}
	o.quietly = true
	return cmd
}

// gatewayOnly are the flags that say how a gateway works.
func gatewayOnly(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[groupAnnotation]) > 0 && f.Name != "agent" && f.Name != "model" && !strings.HasPrefix(f.Name, "log-") {
			names = append(names, f.Name)
		}
	})
	return names
}

// serveMCP serves one client, until it closes its end or ctx ends.
func (a *app) serveMCP(ctx context.Context, agent, model string, o *gatewayFlags, given []string) (err error) {
	if o.listen != "" || slices.ContainsFunc(given, func(flag string) bool { return strings.HasPrefix(flag, "nodes") }) {
		return corral.Errorf(corral.ErrInvalid, "use corral gateway --listen, or --nodes", "corral mcp listens nowhere")
	}
	c, err := a.connect(agent)
	if err == nil {
		defer func() { err = errors.Join(err, c.Close()) }()
		if len(given) > 0 {
			return corral.Errorf(corral.ErrInvalid, "leave it out, or give it to the gateway", "--%s is for the gateway, and one runs already", given[0])
		}
		log := a.logger(&o.loggerFlags)
		tools, err := newRemoteTools(ctx, c, model, log)
		if err != nil {
			return err
		}
		server := mcp.New(mcp.Config{Tools: tools, Version: a.versionInfo().Version, Log: log})
		return a.serveStreams(ctx, server)
	}
	if !errors.Is(err, errNoGateway) {
		return err
	}
	if err := a.checkGateway(o); err != nil {
		return err
	}
	opt, err := a.gatewayOptions(o)
	if err != nil {
		return err
	}
	opt.Alone = true
	g, err := daemon.OpenGateway(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return a.serveStreams(ctx, g.MCP(agent, model))
}

func (a *app) serveStreams(ctx context.Context, server *mcp.Server) error {
	err := server.Serve(ctx, a.stdin, a.stdout)
	if ctx.Err() != nil {
		return nil // that is how it ends
	}
	return errors.Join(err, server.Close())
}

// remoteTools are an agent's tools at a gateway.
type remoteTools struct {
	c     *client.Client
	model string
	list  []tool.Definition
	log   *slog.Logger
}

// newRemoteTools asks a gateway which tools there are.
func newRemoteTools(ctx context.Context, c *client.Client, model string, log *slog.Logger) (remoteTools, error) {
	t := remoteTools{c: c, model: model, log: log}
	listed, err := c.Tools(ctx, model)
	if err != nil {
		return t, err
	}
	for _, d := range listed {
		def := tool.Definition{Name: d.Name, Title: d.Title, Description: d.Description}
		err := json.Unmarshal(d.InputSchema, &def.Input)
		if err == nil && d.OutputSchema != nil {
			err = json.Unmarshal(d.OutputSchema, &def.Output)
		}
		if err != nil {
			return t, fmt.Errorf("the gateway's description of the tool %s is not understood: %w", words.Short(d.Name, 60), err)
		}
		t.list = append(t.list, def)
	}
	return t, nil
}

// Definitions are what the gateway had when it was asked.
func (t remoteTools) Definitions() []tool.Definition { return t.list }

// A remoteResult is one of which only the renderings are known.
type remoteResult struct{ called client.Called }

func (r remoteResult) Text() string                 { return r.called.Text }
func (r remoteResult) Failed() bool                 { return r.called.Failed }
func (r remoteResult) MarshalJSON() ([]byte, error) { return r.called.Result, nil }

// Call calls a tool of the gateway. That the gateway is away is a result, as
// everything is that a model should know.
func (t remoteTools) Call(ctx context.Context, name string, args json.RawMessage) (tool.Result, error) {
	switch name {
	case tool.ExecName:
		req, warnings, err := tool.ParseExec(args)
		if err != nil {
			return failedExec(err, warnings), nil
		}
		return t.exec(ctx, req, warnings), nil
	case tool.ProcessName:
		req, warnings, err := tool.ParseProcess(args)
		var r tool.ProcessResult
		if err == nil {
			r, err = t.c.Process(ctx, req)
		}
		if err != nil {
			r = tool.ProcessResult{Action: req.Action, Error: words.OneLine(err.Error()), Hint: words.OneLine(corral.Hint(err))}
			r.Status, r.Reason = outcomeOf(err)
		}
		r.Warnings = append(warnings, r.Warnings...)
		if r.Warnings == nil {
			r.Warnings = []string{}
		}
		return r, nil
	}
	called, err := t.c.CallTool(ctx, name, t.model, args)
	if err != nil {
		return nil, err
	}
	return remoteResult{called}, nil
}

// failedExec is the result of a call of exec that came to nothing.
func failedExec(err error, warnings []string) tool.ExecResult {
	r := tool.ExecResult{Error: words.OneLine(err.Error()), Hint: words.OneLine(corral.Hint(err)), Warnings: append([]string{}, warnings...)}
	r.Status, r.Reason = outcomeOf(err)
	if r.Status == tool.StatusDenied {
		r.Denial = &tool.Denial{Rule: r.Error, Allow: r.Hint}
	} else {
		r.Ended = &tool.Ended{}
	}
	return r
}

// exec gives the session an ID if the call has none, so that the call can be
// repeated when the gateway was restarted in the middle of it: that runs
// nothing again. A session that nobody chose an ID for is forgotten when all of
// it is in the result, as it would have been at the gateway.
func (t remoteTools) exec(ctx context.Context, req tool.ExecRequest, warnings []string) tool.ExecResult {
	chosen := req.SessionID != ""
	if !chosen {
		req.SessionID = session.NewID()
	}
	id := req.SessionID
	stop := tool.Watch(ctx, func(ctx context.Context) (tool.Progress, bool) { return t.look(ctx, id) })
	r, err := t.c.Exec(ctx, req)
	stop()
	if approve := tool.ApproverOf(ctx); err == nil && r.Status == tool.StatusApprovalPending && r.Approval != nil && approve != nil {
		id = r.SessionID // under which it may have been asked for before
		r, err = t.approved(ctx, req, r, approve)
	}
	if err != nil {
		r = failedExec(err, warnings)
		if r.Status == tool.StatusUnknown {
			r.SessionID = id
		}
		return r
	}
	r.Warnings = append(warnings, r.Warnings...)
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if !chosen && r.SessionID == id && r.Ended != nil && !r.Truncated && r.Status != tool.StatusUnknown {
		t.forget(ctx, id)
		r.SessionID = ""
	}
	return r
}

// approved has somebody here asked for the approval that a call needs, and makes
// the call again: it gets the session that the gateway began when it was allowed.
func (t remoteTools) approved(ctx context.Context, req tool.ExecRequest, pending tool.ExecResult, approve tool.Approver) (tool.ExecResult, error) {
	rec, err := t.c.Approval(ctx, pending.ApprovalID)
	if err == nil {
		rec, err = t.c.AwaitApproval(ctx, rec, approve)
	}
	switch {
	case ctx.Err() != nil:
		return tool.ExecResult{}, fmt.Errorf("cancelled before the command was approved: %w", context.Cause(ctx))
	case err != nil:
		t.log.Info("nobody could be asked for an approval at once", "approval", pending.ApprovalID, "error", err)
		return pending, nil
	case rec.State == approval.Denied:
		return tool.ExecResult{}, corral.Errorf(corral.ErrDenied, "", "exec denied: %s", rec.Settled())
	}
	req.SessionID = pending.SessionID
	defer tool.Watch(ctx, func(ctx context.Context) (tool.Progress, bool) { return t.look(ctx, req.SessionID) })()
	return t.c.Exec(ctx, req)
}

func (t remoteTools) forget(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	p, err := t.c.Session(ctx, id)
	if err == nil {
		err = p.Remove(ctx)
	}
	if err != nil && !errors.Is(err, corral.ErrNotFound) {
		t.log.Warn("cannot forget a session that has ended", "session", id, "error", err)
	}
}

// look is how a command is doing.
func (t remoteTools) look(ctx context.Context, id string) (tool.Progress, bool) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	p, err := t.c.Session(ctx, id)
	if err != nil {
		return tool.Progress{}, false // not begun yet, or away
	}
	st, err := p.Status(ctx)
	if err != nil {
		return tool.Progress{}, false
	}
	const enough = 4 * tool.TailChars
	buf, tail := make([]byte, enough), []byte(nil)
	for off := max(st.OutputBytes-enough, 0); off < st.OutputBytes; {
		c, err := p.Log().Read(ctx, off, buf)
		if err != nil {
			break
		}
		tail, off = append(tail, c.Data...), c.Next()
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return tool.NewProgress(st, strings.ToValidUTF8(string(tail), "\uFFFD")), true
}

// outcomeOf is what an error says of a call.
func outcomeOf(err error) (tool.Status, tool.Reason) {
	switch status, reason := outcome(err); status {
	case StatusUnknown:
		return tool.StatusUnknown, tool.ReasonLost
	case StatusDenied:
		return tool.StatusDenied, tool.ReasonDenied
	default:
		return tool.StatusFailed, tool.Reason(reason)
	}
}
