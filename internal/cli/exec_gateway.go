package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/session"
)

// awayLimit is how long a gateway may be away that has answered before. It is long enough
// for a machine under load to start it again, and for an upgrade.
const awayLimit = 2 * time.Minute

// viaGateway returns a client of the gateway that is to run a command, and
// where the command will go; nil if it is to run from here. A gateway is used
// if there is one and the command would go to the same place there as it would
// from here: what the call says about hosts and sandboxes always holds, and
// nothing that was meant for a sandbox runs without one because a gateway has
// none. The working directory becomes one that the gateway understands.
func (a *app) viaGateway(ctx context.Context, o *execFlags, cmd *corral.Command) (*client.Client, corral.Host, error) {
	local := func(flag, why string) (*client.Client, corral.Host, error) {
		if len(o.wanted) == 0 {
			return nil, "", nil
		}
		return nil, "", corral.Errorf(corral.ErrInvalid, "leave out --"+o.wanted[0]+" or "+flag, "--%s needs a gateway to run the command, and %s", o.wanted[0], why)
	}
	if o.local {
		return nil, "", nil
	}
	if len(o.shape) > 0 {
		return local("--"+o.shape[0], "--"+o.shape[0]+" has this call run it: a gateway's sandboxes are as the gateway was told")
	}
	opt, _, err := a.findGateway()
	if errors.Is(err, errNoGateway) && len(o.wanted) == 0 {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	opt.Agent, opt.Session, opt.Retry = o.agent, o.session, awayLimit
	c, err := client.New(opt)
	if err != nil {
		return nil, "", err
	}
	host, why, err := a.atGateway(ctx, c, o, cmd, opt.Socket != "")
	if err == nil && why == "" {
		return c, host, nil
	}
	if cerr := c.Close(); err != nil || cerr != nil {
		return nil, "", errors.Join(err, cerr)
	}
	return local(a.askedBy(o), why)
}

// atGateway makes cmd one for the gateway, and says where it will go; or why it
// should not go there.
func (a *app) atGateway(ctx context.Context, c *client.Client, o *execFlags, cmd *corral.Command, wait bool) (host corral.Host, why string, err error) {
	record, err := a.readyGateway(ctx, c, wait)
	if err != nil {
		return "", "", err
	}
	var answer *guard.Report
	if record != nil && a.asksForPlace(o) {
		// The record says what the gateway was started with, and not what its
		// configuration says by now.
		r, err := c.Explain(ctx, corral.Command{Shell: ":", Host: corral.Host(o.host), Elevated: o.elevated, Node: o.node}, client.ExplainOptions{})
		switch {
		case err == nil:
			answer = &r
		case !errors.Is(err, corral.ErrNotFound) && !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, corral.ErrDenied):
			return "", "", err // the others are of a call that cannot go anywhere, which the record shows as well
		}
	}
	there, why, err := a.sameRoute(o, record, answer)
	if err != nil || why != "" {
		return "", why, err
	}
	if there.Host == corral.HostGateway && !filepath.IsAbs(cmd.Dir) {
		here, err := os.Getwd()
		if err != nil {
			return "", "", corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell the working directory: %w", err)
		}
		cmd.Dir = filepath.Join(here, cmd.Dir)
	}
	cmd.Host = corral.Host(o.host)
	if cmd.ID == "" {
		cmd.ID = session.NewID() // which people can read
	}
	return there.Host, "", nil
}

// readyGateway waits until a gateway takes commands, and returns its record:
// one that is still starting has written none, and what is there may be that of
// the one before it, with other settings.
func (a *app) readyGateway(ctx context.Context, c *client.Client, wait bool) (*gatewayRecord, error) {
	for deadline := time.Now().Add(awayLimit); ; {
		err := c.Ready(ctx)
		if err == nil {
			break
		}
		if !wait || !errors.Is(err, corral.ErrUnavailable) || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryPause):
		}
	}
	_, record, err := a.findGateway()
	return record, err
}

// sameRoute says where a gateway would run a command, or why that is not where
// this process would. Without a record of the gateway only a call that asks for
// nothing can be sent there.
// The answer is the gateway's own, where it could be asked.
func (a *app) sameRoute(o *execFlags, r *gatewayRecord, answer *guard.Report) (there corral.Route, why string, err error) {
	asks := a.asksForPlace(o)
	if r == nil {
		if asks {
			return there, "", corral.Errorf(corral.ErrUnavailable, "leave out --host, --elevated and CORRAL_SANDBOX, or use --local",
				"it cannot be told from here where the gateway would run the command")
		}
		return there, "", nil
	}
	on := map[bool]corral.SandboxState{false: corral.SandboxOff, true: corral.SandboxOn}
	if answer != nil {
		there = answer.Route
		if !answer.Guarded && answer.Outcome == policy.Denied {
			err = corral.Errorf(corral.ErrDenied, "", "%s", answer.Reason)
		}
	} else if there, err = corral.Resolve(corral.RouteRequest{
		Requested: corral.Host(o.host), Elevated: o.elevated, Node: o.node,
		Sandbox: on[r.Sandbox != modeOff], SandboxRequired: r.Sandbox == modeRequired,
	}); err == nil {
		err = fence{required: r.Sandbox == modeRequired, elevated: r.AllowElevated}.check(there)
	}
	if err != nil && there.Reason == corral.RouteElevated && o.host == "" {
		// To run it from here would be to leave a sandbox that nothing may leave.
		return there, "", corral.Errorf(corral.ErrDenied, "leave out --elevated, or start the gateway with --sandbox all --allow-elevated; --local runs the command without the gateway",
			"--elevated asks to leave the sandbox, and the gateway (--sandbox %s) lets no command leave it", r.Sandbox)
	}
	if !asks {
		return there, "", nil // the gateway's own answer is the best there is
	}
	here, hereErr := corral.Resolve(corral.RouteRequest{
		Configured: corral.Host(o.host), Elevated: o.elevated, Node: o.node,
		Sandbox: on[a.settings.Mode != modeOff], SandboxRequired: a.settings.Mode == modeRequired,
	})
	if hereErr == nil {
		hereErr = fence{required: a.settings.Mode == modeRequired, elevated: true}.check(here)
	}
	switch {
	case hereErr != nil:
		return there, a.askedBy(o) + " does not allow it", nil // what is said where it would run from here
	case err != nil:
		return there, fmt.Sprintf("%s asks for %s, where the gateway (--sandbox %s) runs no command", a.askedBy(o), placeName(here), r.Sandbox), nil
	case here.Host != there.Host, here.Host != corral.HostNode && here.Sandboxed != there.Sandboxed: // a node's sandbox is its own affair
		return there, fmt.Sprintf("%s asks for %s, and the gateway (--sandbox %s) would run it on %s", a.askedBy(o), placeName(here), r.Sandbox, placeName(there)), nil
	}
	return there, "", nil
}

// asksForPlace reports whether the call says where the command is to run.
func (a *app) asksForPlace(o *execFlags) bool {
	return o.host != "" || o.elevated || o.node != "" || a.settings.Mode != modeOff
}

// askedBy is what says where the command is to run.
func (a *app) askedBy(o *execFlags) string {
	switch {
	case o.node != "":
		return "--node " + o.node
	case o.host != "":
		return "--host " + o.host
	case o.elevated:
		return "--elevated"
	}
	return "CORRAL_SANDBOX=" + a.settings.Mode
}

func placeName(r corral.Route) string {
	switch {
	case r.Host == corral.HostNode:
		return "a node"
	case r.Sandboxed:
		return "a sandbox"
	}
	return "this machine"
}

// terminalAnswers has a gateway know that a command's terminal is shown by a real
// one, as long as it is: that answers what the command asks its terminal, such
// as where the cursor is, and the gateway does not.
type terminalAnswers struct {
	cancel context.CancelFunc
	owned  sync.WaitGroup
}

func (t *terminalAnswers) begin(ctx context.Context, p corral.Process) {
	session, ok := p.(*client.Process)
	if !ok {
		return
	}
	ctx, t.cancel = context.WithCancel(ctx)
	// It is attached to where there is no output, which is read elsewhere.
	term, err := session.Attach(ctx, math.MaxInt64)
	if err != nil {
		return // then both answer, which costs more than it harms
	}
	t.owned.Go(func() {
		defer term.Close()
		for {
			m, err := term.Next(ctx) // it comes back after a restart of the gateway
			if err != nil || m.Exit != nil {
				return
			}
		}
	})
}

func (t *terminalAnswers) stop() {
	if t.cancel != nil {
		t.cancel()
	}
	t.owned.Wait()
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
	Warnings  []string    `json:"warnings"`
}

// execBackground starts a command and leaves it to the gateway.
func (a *app) execBackground(ctx context.Context, o *execFlags, args []string, program bool) error {
	warnings := []string{}
	if o.json {
		a.kept, a.quiet = &warnings, true
	}
	cmd, err := a.command(o, args, program)
	if err != nil {
		return err
	}
	if err := a.configure(o.agent); err != nil {
		return err
	}
	cmd.Stdin, cmd.Log = o.stdinGiven && o.stdin, corral.LogLimit{}
	if o.pty {
		(&foreground{app: a}).openTerminal(&cmd)
	}
	return a.untilSignal(ctx, func(ctx context.Context) (err error) {
		c, host, err := a.viaGateway(ctx, o, &cmd)
		if err != nil {
			return err
		}
		a.remote = true
		defer func() { err = errors.Join(err, c.Close()) }()
		p, err := startApproved(ctx, a, o, c, cmd, func(ctx context.Context, cmd corral.Command) (*client.Process, error) { return c.Begin(ctx, cmd, true) })
		if pending := (*pendingError)(nil); o.json && errors.As(err, &pending) {
			return a.printJSON(NewResult(corral.Result{Info: corral.Info{Warnings: warnings}}, err, 0), err)
		}
		if err != nil {
			return o.aboutID(a.aboutDir(err, o.workdir, host))
		}
		info := p.Info()
		a.warnAll(info.Warnings)
		if !o.json {
			return a.printLine(info.ID)
		}
		return a.printJSON(backgroundResult{
			"running", info.ID, info.PID, info.StartedAt, info.Host, info.Node, info.Sandboxed, info.Dir, warnings,
		}, nil)
	})
}
