package tool

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session"
)

// readLimit bounds how long a result waits for the output of a command that
// has ended, after the call that it is for.
const readLimit = 10 * time.Second

// Exec runs a command and waits for it for ExecRequest.YieldMs. When ctx ends
// while it waits, the command's process tree is killed; what is in the
// background goes on. Whatever happens is in the result.
func (t *Tools) Exec(ctx context.Context, req ExecRequest) ExecResult {
	return t.exec(ctx, req, nil)
}

func (t *Tools) exec(ctx context.Context, req ExecRequest, warnings []string) ExecResult {
	p, err := t.plan(req)
	warnings = append(warnings, p.warnings...)
	if err != nil {
		return refused(ctx, err, warnings)
	}
	denied, noted := t.guard(ctx, p)
	if denied != nil {
		return *denied.warn(warnings)
	}
	warnings = append(warnings, noted...)
	s, err := t.begin(ctx, p)
	if err != nil {
		r := refused(ctx, err, warnings)
		if s != nil {
			r.SessionID = s.ID() // it will be told there what became of it
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
	// The call may be over, but not the account of what it did.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	var r *ExecResult
	if st.State == session.Running {
		r = t.running(ctx, s, st, err)
	} else {
		r = t.ended(ctx, s, st, p, err)
	}
	r.standing = t.cfg.Standing
	return *r.warn(warnings)
}

// startGrace is how long a start that is under way may go on when its call is
// cancelled. Without it nobody could tell whether there is something to kill.
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

// guard applies what there is of a policy: the result of a command that may not
// run, or warnings about what was asked for and has no effect yet.
func (t *Tools) guard(ctx context.Context, p plan) (denied *ExecResult, warnings []string) {
	// The sandbox is its own boundary; so is what runs in its place.
	route := corral.Route{Host: p.command.Host, Guarded: p.command.Host == corral.HostGateway || p.command.Host == corral.HostNode}
	if t.cfg.Route != nil {
		var err error
		if route, err = t.cfg.Route(p.command); err != nil {
			r := refused(ctx, err, nil)
			return &r, nil
		}
	}
	switch {
	case !route.Guarded:
		return nil, nil
	case p.security == SecurityDeny:
		rule := fmt.Sprintf("host=%s security=%s", route.Host, SecurityDeny)
		return &ExecResult{
			Status: StatusDenied, Reason: ReasonDenied, Error: "exec denied: " + rule,
			Host: route.Host, Node: p.command.Node, Cwd: p.command.Dir,
			Denial: &Denial{Rule: rule, Allow: "security=allowlist or security=full, where the configuration allows it"},
		}, nil
	}
	var names []string
	if p.security == SecurityAllowlist {
		names = append(names, "security="+string(p.security))
	}
	if p.ask == AskAlways || p.ask == AskOnMiss {
		names = append(names, "ask="+string(p.ask))
	}
	if len(names) == 0 {
		return nil, nil
	}
	return nil, []string{strings.Join(names, " and ") + " had no effect: no policy for commands is configured."}
}

// refused is the result of a command that was not started.
func refused(ctx context.Context, err error, warnings []string) ExecResult {
	r := &ExecResult{Error: err.Error(), Hint: corral.Hint(err)}
	r.Status, r.Reason = outcome(ctx, err)
	if r.Status == StatusDenied {
		r.Denial = &Denial{Rule: r.Error, Allow: r.Hint}
	} else {
		r.Ended = &Ended{}
	}
	return *r.warn(warnings)
}

func (t *Tools) running(ctx context.Context, s *session.Session, st session.Status, err error) *ExecResult {
	r := newResult(st)
	r.Running = &Running{PID: st.PID, StartedAt: st.StartedAt}
	tail, tailErr := s.Tail(ctx, tailBytes)
	if tailErr != nil {
		r.Warnings = append(r.Warnings, "What it has written so far cannot be read: "+tailErr.Error()+".")
	}
	r.Tail = lastChars(corral.StripANSI(tail), TailChars)
	if err != nil {
		r.Warnings = append(r.Warnings, "It is in the background: "+err.Error()+".")
	}
	return r
}

func (t *Tools) ended(ctx context.Context, s *session.Session, st session.Status, p plan, err error) *ExecResult {
	r := newResult(st)
	end := exitOf(st)
	r.Ended = &Ended{ExitCode: end.ExitCode, Signal: end.Signal, SignalName: end.SignalName, DurationMs: end.DurationMs, OutputBytes: st.OutputBytes}
	out, readErr := s.Output(ctx, t.cfg.MaxOutput/2)
	if readErr != nil {
		r.Truncated = true
		r.Warnings = append(r.Warnings, "The output cannot be read: "+readErr.Error()+".")
	} else {
		r.Output, r.Stdout, r.Stderr = clean(out.Output), clean(out.Stdout), clean(out.Stderr)
		r.Truncated = out.Output.Omitted+out.Stdout.Omitted+out.Stderr.Omitted > 0
		r.OutputBytes = int64(len(out.Output.Head)+len(out.Output.Tail)) + out.Output.Omitted
	}
	r.Error, r.Hint = whyEnded(st, p.command.Timeout, err)
	if p.command.ID != "" || st.Background { // kept as it is
		return r
	}
	if r.Truncated || st.State == session.Unknown {
		if err := s.Keep(); err != nil {
			r.Warnings = append(r.Warnings, "The session may not be kept: "+err.Error()+".")
		}
		return r
	}
	r.SessionID = "" // everything about it is here
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

// newResult is what every result of a session has.
func newResult(st session.Status) *ExecResult {
	return &ExecResult{
		Status: Status(st.State), Reason: Reason(st.Reason), SessionID: st.ID,
		Host: st.Host, Node: st.Node, Sandboxed: st.Sandboxed, Cwd: st.Dir,
		Warnings: append([]string{}, st.Warnings...),
	}
}

// warn puts warnings before those that there are.
func (r *ExecResult) warn(warnings []string) *ExecResult {
	r.Warnings = append(append([]string{}, warnings...), r.Warnings...)
	return r
}

// seconds is a time as people say it: "45 seconds", "0.5 seconds".
func seconds(d time.Duration) string {
	if d == time.Second {
		return "1 second"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " seconds"
}
