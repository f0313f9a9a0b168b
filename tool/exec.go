package tool

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// readLimit bounds how long a result waits for the output of a command that has ended.
// The call itself may be over by then.
const readLimit = 10 * time.Second

// Exec runs a command and waits for it for ExecRequest.YieldMs. If ctx ends while it
// waits, the command's process tree is killed; a command in the background goes on. All
// failures are in the result.
func (t *Tools) Exec(ctx context.Context, req ExecRequest) ExecResult {
	return t.exec(ctx, req, nil)
}

func (t *Tools) exec(ctx context.Context, req ExecRequest, warnings []string) ExecResult {
	if err := t.allowed(ExecName); err != nil {
		return refused(ctx, err, warnings)
	}
	p, err := t.plan(req)
	warnings = append(warnings, p.warnings...)
	if err != nil {
		return refused(ctx, err, warnings)
	}
	s, err := t.begin(ctx, p)
	if pending, ok := approval.AsPending(err); ok && t.cfg.Guard != nil {
		if approve := t.approver(ctx); approve != nil {
			s, err = t.approved(ctx, p, pending, approve)
		}
	}
	if err != nil {
		r := refused(ctx, err, warnings)
		if s != nil {
			r.SessionID = s.ID() // the session will show how it ended
		}
		return r
	}
	var st session.Status
	if p.background {
		st = s.Status(ctx)
	} else {
		stop := watch(ctx, s)
		st, err = s.Yield(ctx, p.wait)
		stop()
	}
	// The call may be over, but its result still has to be read.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	var r *ExecResult
	if st.State == session.Running {
		r = t.running(ctx, s, st, err)
	} else {
		r = t.ended(ctx, s, st, p, err)
	}
	return *r.warn(warnings)
}

// startGrace is how long a start may go on after its call was cancelled. Without it, it
// would not be known whether there is a process to kill.
const startGrace = 2 * time.Second

func (t *Tools) begin(ctx context.Context, p plan) (*session.Session, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("cancelled before the command was started: %w", context.Cause(ctx))
	}
	start, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-start.Done():
		case <-time.After(startGrace):
			cancel(context.Cause(ctx))
		}
	})()
	return t.cfg.Agent.Begin(start, session.Options{Command: p.command, Background: p.background, NotifyOnExit: p.notify})
}

// approved asks the caller's person for the approval that begin needs, waits for the
// answer, and then begins the command.
func (t *Tools) approved(ctx context.Context, p plan, pending *approval.PendingError, approve Approver) (s *session.Session, err error) {
	began := false
	rec, err := t.cfg.Guard.Await(ctx, pending.Record, approve, func(rec approval.Record) error {
		began = true
		p.command = rec.Apply(p.command)
		var err error
		s, err = t.begin(ctx, p)
		return err
	})
	switch {
	case began:
		return s, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("cancelled before the command was approved: %w", context.Cause(ctx))
	case err != nil:
		t.cfg.Log.Info("nobody could be asked for an approval at once", "approval", pending.Record.ID, "error", err)
		return nil, pending
	case rec.State == approval.Denied:
		return nil, corral.Errorf(corral.ErrDenied, "", "exec denied: %s", rec.Settled())
	}
	// It expired, or another call used it for the same command.
	p.command = rec.Apply(p.command)
	return t.begin(ctx, p)
}

// refused is the result of a command that was not started.
func refused(ctx context.Context, err error, warnings []string) ExecResult {
	r := &ExecResult{Error: err.Error(), Hint: corral.Hint(err)}
	r.Status, r.Reason = Outcome(ctx, err)
	switch r.Status {
	case StatusApprovalPending:
		if p, ok := approval.AsPending(err); ok {
			r.pending(p.Record)
		}
	case StatusDenied:
		r.Denial = &Denial{Rule: r.Error, Allow: r.Hint}
		if d, ok := policy.AsDenied(err); ok {
			r.Denial.Rule, r.Decision = d.Reason, &d.Decision
		}
	default:
		r.Ended = &Ended{}
	}
	return *r.warn(warnings)
}

// pending fills in the result of a command that waits for an approval.
func (r *ExecResult) pending(rec approval.Record) {
	r.Error, r.Hint = "", "" // waiting is no failure
	r.Host, r.Node, r.Cwd, r.SessionID = rec.Host, rec.Node, rec.Cwd, rec.StartID()
	r.Approval = &Approval{
		ApprovalID: rec.ID, ApprovalSlug: rec.Slug, ExpiresAt: rec.ExpiresAt, AllowedDecisions: rec.AllowedDecisions,
		Command: rec.Text(), Why: rec.Decision.Reason,
	}
}

func (t *Tools) running(ctx context.Context, s *session.Session, st session.Status, err error) *ExecResult {
	r := newResult(st)
	r.Running = &Running{PID: st.PID, StartedAt: st.StartedAt}
	tail, tailErr := s.Tail(ctx, tailBytes)
	if tailErr != nil {
		r.Warnings = append(r.Warnings, "What it has written so far cannot be read: "+tailErr.Error()+".")
	}
	r.Tail = lastChars(words.StripANSI(tail), TailChars)
	if err != nil {
		r.Warnings = append(r.Warnings, "It is in the background: "+err.Error()+".")
	}
	return r
}

func (t *Tools) ended(ctx context.Context, s *session.Session, st session.Status, p plan, err error) *ExecResult {
	r := newResult(st)
	end := exitOf(st)
	r.Ended = &Ended{ExitStatus: end.ExitStatus, DurationMs: end.DurationMs, OutputBytes: st.OutputBytes}
	out, readErr := s.Output(ctx, t.cfg.MaxOutput/2)
	if readErr != nil {
		r.Truncated = true
		r.Warnings = append(r.Warnings, "The output cannot be read: "+readErr.Error()+".")
	} else {
		r.Output, r.Stdout, r.Stderr = out.Output.Plain(), out.Stdout.Plain(), out.Stderr.Plain()
		r.Truncated = out.Output.Omitted+out.Stdout.Omitted+out.Stderr.Omitted > 0
		r.OutputBytes = int64(len(out.Output.Head)+len(out.Output.Tail)) + out.Output.Omitted
	}
	r.Error, r.Hint = whyEnded(st, p.command.Timeout, err)
	if p.command.ID != "" || st.Background { // keep the session
		return r
	}
	if r.Truncated || st.State == session.Unknown {
		if err := s.Keep(); err != nil {
			r.Warnings = append(r.Warnings, "The session may not be kept: "+err.Error()+".")
		}
		return r
	}
	r.SessionID = "" // the result has everything
	if err := s.Clear(ctx); err != nil {
		t.cfg.Log.Warn("cannot forget a session that has ended", "session", st.ID, "error", err)
	}
	return r
}

// whyEnded says why a session is failed or unknown, and what to do about it.
func whyEnded(st session.Status, timeout time.Duration, err error) (text, hint string) {
	switch {
	case st.State == session.Completed:
		return "", ""
	case st.Reason == session.ReasonTimeout:
		return timedOut(timeout)
	case st.Reason == session.ReasonOOM:
		return "Command killed: there was no memory left.", "Let it use less at a time, or run less beside it; how much there is in a sandbox is sandbox.memory in the configuration."
	case st.Reason == session.ReasonCancelled:
		text = "Command cancelled; its process tree was killed."
		if err != nil {
			text = "Command cancelled (" + err.Error() + "); its process tree was killed."
		}
		return text, ""
	case st.Reason == session.ReasonKilled:
		return "Command killed on request.", ""
	case st.Reason == session.ReasonNotStarted:
		return "Command not started: " + st.Detail, "it is safe to run it again"
	}
	text = "It is not known whether the command ran to its end, or how it ended."
	if st.Detail != "" {
		text += " " + st.Detail
	}
	return text, "look at what it was to do before you run it again"
}

func timedOut(limit time.Duration) (text, hint string) {
	return "Command timed out after " + seconds(limit) + "; its process tree was killed.",
		"If it needs longer, give a higher timeout (0 is none). To be answered earlier, use background=true or a short yieldMs and follow it with process. Do not rely on shell backgrounding (a trailing &)."
}

// newResult fills in the fields that every result of a session has.
func newResult(st session.Status) *ExecResult {
	return &ExecResult{
		Status: Status(st.State), Reason: Reason(st.Reason), SessionID: st.ID,
		Host: st.Host, Node: st.Node, Sandboxed: st.Sandboxed, Cwd: st.Dir, Enforced: st.Enforced.String(),
		Notice:   st.Notice,
		Warnings: append([]string{}, st.Warnings...),
	}
}

// warn puts warnings before the existing ones.
func (r *ExecResult) warn(warnings []string) *ExecResult {
	r.Warnings = append(append([]string{}, warnings...), r.Warnings...)
	return r
}

// seconds is a duration in words: "45 seconds", "0.5 seconds".
func seconds(d time.Duration) string {
	if d == time.Second {
		return "1 second"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " seconds"
}
