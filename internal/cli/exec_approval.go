package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cli/approvals"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/policy/approval"
)

// approving is a gateway at which a start waits for the approval that it needs.
type approving struct {
	daemon.Executor
	app     commands
	flags   *execFlags
	gateway *client.Client
}

func (s approving) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	return startApproved(ctx, s.app, s.flags, s.gateway, cmd, s.Executor.Start)
}

// startApproved starts a command, and if it needs an approval, waits for it where
// a person can be asked or the call says how long.
func startApproved[P any](ctx context.Context, a commands, o *execFlags, c *client.Client, cmd corral.Command, start func(context.Context, corral.Command) (P, error)) (P, error) {
	start = startSlowly(a, start)
	p, err := start(ctx, cmd)
	rec, ok := client.PendingApproval(err)
	if !ok {
		return p, err
	}
	now, err := a.awaitApproval(ctx, o, c, rec)
	var none P
	switch {
	case err != nil && ctx.Err() != nil:
		return none, err
	case err != nil || now.State == approval.Pending:
		if err != nil {
			a.Warn("Nobody could be asked: " + err.Error() + ".")
		}
		return none, &pendingError{rec, corral.Errorf(corral.ErrApproval, approvals.PendingHint(rec, cmp.Or(rec.CommandID, cmd.ID)), "approval %s is pending: %s", rec.Slug, app.Visible(rec.Decision.Reason))}
	case now.State == approval.Denied:
		return none, corral.Errorf(corral.ErrDenied, "", "exec denied: %s", app.Visible(now.Settled()))
	}
	cmd.Approval = rec.ID
	if o.id == "" && rec.CommandID != "" { // it may have been asked for before, under another
		cmd.ID = rec.CommandID
	}
	return start(ctx, cmd)
}

// slow is how long a start may take before it is said what it may wait for.
const slow = 5 * time.Second

// startSlowly is start, which says so if it takes long: to make an image takes a minute,
// and only the gateway knows how that goes.
func startSlowly[P any](a commands, start func(context.Context, corral.Command) (P, error)) func(context.Context, corral.Command) (P, error) {
	return func(ctx context.Context, cmd corral.Command) (P, error) {
		started, said := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(said)
			select {
			case <-started:
			case <-time.After(slow):
				a.Tell("The gateway has not started it yet. The first command in a sandbox waits for its image, which may have to be built: the gateway's log says how that goes.")
			}
		}()
		defer func() {
			close(started)
			<-said
		}()
		return start(ctx, cmd)
	}
}

// A pendingError is a command that waits for an approval.
type pendingError struct {
	rec approval.Record
	err *corral.Error
}

func (e *pendingError) Error() string { return e.err.Error() }
func (e *pendingError) Unwrap() error { return e.err }

// awaitApproval waits for the answer; the record is still pending if no
// answer is given here, or none came in time.
func (a commands) awaitApproval(ctx context.Context, o *execFlags, c *client.Client, rec approval.Record) (approval.Record, error) {
	var ask func(context.Context, approval.Record) (approval.Answer, error)
	if q := approvals.OpenAsker(a.App); q != nil && !o.json {
		defer q.Lines.Close()
		ask = q.Ask
	} else if q != nil {
		q.Lines.Close()
	}
	limit := time.Duration(o.waitApproval)
	if ask == nil && limit == 0 {
		return rec, nil
	}
	wait := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
		if ask == nil && !a.Quiet {
			fmt.Fprintln(a.Stderr, "Approval "+rec.Slug+" is pending: "+app.Visible(rec.Decision.Reason)+". Waiting for an answer (corral approvals allow "+rec.Slug+").")
		}
	}
	now, err := c.AwaitApproval(wait, rec, ask)
	switch {
	case err == nil:
		return now, nil
	case ctx.Err() != nil:
		a.withdraw(c, rec)
		return rec, context.Cause(ctx)
	case wait.Err() != nil, errors.Is(err, approvals.ErrSkipped), errors.Is(err, terminal.ErrClosed):
		return rec, nil
	}
	return rec, err
}

// withdraw denies a command whose call has ended: nothing waits for it.
func (a commands) withdraw(c *client.Client, rec approval.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), foreground.CallLimit)
	defer cancel()
	_, err := c.Answer(ctx, rec.ID, approval.Answer{Decision: approval.Deny, By: a.WhoAnswers() + ", who ended the call"})
	if err != nil && !errors.Is(err, corral.ErrConflict) && !errors.Is(err, corral.ErrNotFound) {
		a.Warn("The approval " + rec.Slug + " is still pending: " + err.Error() + ".")
	}
}
