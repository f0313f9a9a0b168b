package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/session"
)

// viaGateway returns a client of the gateway that is to run a command, and
// where the command will go; nil if it is to run from here. Where a gateway runs
// it is obeyed: nothing but --local leads past it, and what cannot be had there
// fails.
func (a commands) viaGateway(ctx context.Context, o *execFlags, cmd *corral.Command) (*client.Client, corral.Host, error) {
	opt, record, err := a.FindGateway()
	switch {
	case o.local:
		if err == nil && o.localGiven {
			a.Warn("Run from here, past " + gatewayName(record) + " (--local): its policy does not decide on this command, and corral ps does not show it.")
		}
		return nil, "", nil
	case errors.Is(err, reach.ErrNoGateway) && len(o.wanted) == 0:
		p, err := a.Place()
		a.Without = p.Unasked(a.Defaults)
		return nil, "", err
	case err != nil:
		return nil, "", err
	}
	if flags := withoutFlags(o.shape, "workspace", "sandbox"); len(flags) > 0 {
		return nil, "", corral.Errorf(corral.ErrInvalid, "leave it out; "+reach.PastHint, "--%s cannot change the sandboxes of %s", flags[0], gatewayName(record))
	}
	app.ActFor(&opt, o.agent)
	opt.Session, opt.Retry = o.session, reach.AwayLimit
	c, err := client.New(opt)
	if err != nil {
		return nil, "", err
	}
	host, err := a.atGateway(ctx, c, o, cmd, opt.Socket != "")
	if err != nil {
		return nil, "", errors.Join(err, c.Close())
	}
	return c, host, nil
}

func gatewayName(r *daemon.Record) string {
	if r == nil {
		return "the gateway"
	}
	return fmt.Sprintf("the gateway that runs (pid %d)", r.PID)
}

// withoutFlags are those of the flags that are not among others.
func withoutFlags(flags []string, others ...string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return slices.Contains(others, f) })
}

// atGateway makes cmd one for the gateway, and says where it will go; empty if
// the gateway refuses it, which starting it says.
func (a commands) atGateway(ctx context.Context, c *client.Client, o *execFlags, cmd *corral.Command, wait bool) (corral.Host, error) {
	cmd.Host = corral.Host(o.host)
	if cmd.ID == "" {
		cmd.ID = session.NewID() // which people can read
	}
	// The record says what the gateway was started with, and not what its
	// configuration says by now.
	where := corral.Command{Shell: ":", Host: cmd.Host, Elevated: o.elevated, Node: o.node}
	var r api.Report
	record, answer, err := a.askGateway(ctx, c, wait, func(ctx context.Context) (err error) {
		r, err = c.Explain(ctx, where, client.ExplainOptions{})
		return err
	})
	if err != nil {
		return "", err
	}
	switch {
	case errors.Is(answer, corral.ErrInvalid), errors.Is(answer, corral.ErrDenied), answer == nil && !r.Guarded && r.Outcome == policy.Denied:
		return "", nil
	case answer != nil:
		return "", answer
	}
	if err := a.wanted(o).Check(r.Route); err != nil {
		return "", err
	}
	if o.configured && r.TimeoutSeconds != nil {
		o.timeout = cmdline.Seconds(*r.TimeoutSeconds * float64(time.Second))
		cmd.Timeout = time.Duration(o.timeout)
	}
	if r.Route.Host == corral.HostGateway && record != nil && !filepath.IsAbs(cmd.Dir) {
		dir := a.Settings.Workspace.Dir
		if !slices.Contains(o.shape, "workspace") {
			if dir, err = os.Getwd(); err != nil {
				return "", corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell the working directory: %w", err)
			}
		}
		cmd.Dir = filepath.Join(dir, cmd.Dir)
	}
	return r.Route.Host, nil
}

// firstAnswer is how long a gateway is given for its first answer, before it is waited
// for in full.
const firstAnswer = time.Second

// askGateway asks a gateway something, and returns its record and what ask returned. A
// gateway that answers takes commands: only another one is asked whether it does, and
// waited for.
func (a commands) askGateway(ctx context.Context, c *client.Client, wait bool, ask func(context.Context) error) (record *daemon.Record, answer, err error) {
	once, cancel := context.WithTimeout(ctx, firstAnswer)
	answer = ask(once)
	answered := once.Err() == nil && !errors.Is(answer, corral.ErrUnavailable)
	cancel()
	if answer == nil || answered {
		_, record, err = a.FindGateway()
		return record, answer, err
	}
	if record, err = a.readyGateway(ctx, c, wait); err == nil {
		answer = ask(ctx)
	}
	return record, answer, err
}

// readyGateway waits until a gateway takes commands, and returns its record:
// one that is still starting has written none, and what is there may be that of
// the one before it, with other settings.
func (a commands) readyGateway(ctx context.Context, c *client.Client, wait bool) (*daemon.Record, error) {
	err := reach.Ready(ctx, c, wait, func() {
		a.Tell("A gateway is there, and does not answer yet. Waiting for it; " + reach.PastHint + ".")
	})
	if err != nil {
		return nil, err
	}
	_, record, err := a.FindGateway()
	return record, err
}

// wanted is the place that the call asks for. What the configuration says the gateway
// knows better.
func (a commands) wanted(o *execFlags) reach.Wanted {
	w := reach.Wanted{Host: corral.Host(o.host), Elevated: o.elevated, Workspace: slices.Contains(o.shape, "workspace")}
	switch mode := a.Settings.Mode; {
	case slices.Contains(o.shape, "sandbox"):
		w.Mode, w.By = mode, "--sandbox "+mode
	case w.Host == corral.HostSandbox:
		w.Mode, w.By = mode, "--host sandbox"
	case a.Given("sandbox") && mode != daemon.ModeOff: // the variable
		w.Mode, w.By = mode, "CORRAL_SANDBOX="+mode
	}
	return w
}

// A backgroundResult is what corral exec --background --json prints.
type backgroundResult struct {
	Status    string      `json:"status"` // "running"
	SessionID string      `json:"sessionId"`
	PID       int         `json:"pid"`
	StartedAt time.Time   `json:"startedAt"`
	Host      corral.Host `json:"host"`
	Node      string      `json:"node"`
	Sandboxed bool        `json:"sandboxed"`
	Cwd       string      `json:"cwd"`
	Notice    string      `json:"notice"`
	Warnings  []string    `json:"warnings"`
}

// execBackground starts a command and leaves it to the gateway.
func (a commands) execBackground(ctx context.Context, o *execFlags, args []string, program bool) error {
	warnings := []string{}
	if o.json {
		a.Kept, a.Quiet = &warnings, true
	}
	cmd, err := a.command(o, args, program)
	if err != nil {
		return err
	}
	if err := a.Configure(o.agent); err != nil {
		return err
	}
	cmd.Stdin, cmd.Log = o.stdinGiven && o.stdin, corral.LogLimit{}
	if o.pty {
		(&foreground.Job{Streams: a.Streams()}).OpenTerminal(&cmd)
	}
	return foreground.UntilSignal(ctx, func(ctx context.Context) (err error) {
		c, host, err := a.viaGateway(ctx, o, &cmd)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		p, err := startApproved(ctx, a, o, c, cmd, func(ctx context.Context, cmd corral.Command) (*client.Process, error) { return c.Begin(ctx, cmd, true) })
		if pending := (*pendingError)(nil); o.json && errors.As(err, &pending) {
			return a.PrintJSON(NewResult(runner.Result{Info: corral.Info{Warnings: warnings}}, err, 0), err)
		}
		if err != nil {
			return o.aboutID(a.aboutDir(err, o.workdir, host))
		}
		info := p.Info()
		a.WarnAll(info)
		if !o.json {
			return a.PrintLine(info.ID)
		}
		return a.PrintJSON(backgroundResult{
			"running", info.ID, info.PID, info.StartedAt, info.Host, info.Node, info.Sandboxed, info.Dir, info.Notice, warnings,
		}, nil)
	})
}
