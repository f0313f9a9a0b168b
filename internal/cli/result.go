package cli

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/tool"
)

// A Result is what corral exec --json prints: one shape for every host and
// every outcome. Status says which, and every field is there in each of them;
// only Reason, Error and Hint are left out where there is nothing to say.
type Result struct {
	Status tool.Status `json:"status"`
	Reason tool.Reason `json:"reason,omitempty"`
	Error  string      `json:"error,omitempty"` // one line
	Hint   string      `json:"hint,omitempty"`  // what to do about it; one line

	tool.Ended

	Host      corral.Host `json:"host"` // where it really ran, or is to run; empty if it does neither
	Node      string      `json:"node"`
	Sandboxed bool        `json:"sandboxed"`
	Cwd       string      `json:"cwd"`
	// Enforced is what the kernel kept the command to: "programs, files", or one
	// of the two. Empty: nothing.
	Enforced string `json:"enforced"`

	// Notice is what is the same for every command there; empty: nothing.
	Notice   string   `json:"notice"`
	Warnings []string `json:"warnings"` // about this command

	*tool.Approval // of tool.StatusApprovalPending alone
}

// reasonState is for sessions that have ended, or have not, or take no input.
const reasonState tool.Reason = "state"

// NewResult says what came of a command, from what runner.Run returned and how
// long that took.
func NewResult(run runner.Result, err error, took time.Duration) Result {
	r := Result{
		Status: tool.StatusCompleted,
		Ended: tool.Ended{
			Stdout: run.Stdout.String(), Stderr: run.Stderr.String(), Output: run.Output.String(), DurationMs: took.Milliseconds(),
			Truncated:   run.Output.Omitted+run.Stdout.Omitted+run.Stderr.Omitted > 0,
			OutputBytes: int64(len(run.Output.Head)+len(run.Output.Tail)) + run.Output.Omitted,
		},
		Host: run.Info.Host, Node: run.Info.Node, Sandboxed: run.Info.Sandboxed, Cwd: run.Info.Dir,
		Enforced: run.Info.Enforced.String(),
		Notice:   run.Info.Notice,
		Warnings: run.Info.Warnings,
	}
	if len(run.Exit.Refused) > 0 {
		r.Warnings = append(r.Warnings[:len(r.Warnings):len(r.Warnings)], run.Info.Enforced.Refusal(run.Exit.Refused))
	}
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if exit := run.Exit; exit.Reason != "" { // it was seen to end
		if !exit.EndedAt.Before(exit.StartedAt) {
			r.DurationMs = exit.EndedAt.Sub(exit.StartedAt).Milliseconds()
		}
		r.ExitStatus = exit.Status()
		switch exit.Reason {
		case corral.ReasonTimeout:
			r.Status, r.Reason, r.Error = tool.StatusFailed, tool.ReasonTimeout, exit.String()
		case corral.ReasonOOM:
			r.Status, r.Reason, r.Error = tool.StatusFailed, tool.ReasonOOM, exit.String()
		}
	}
	if err != nil {
		r.Status, r.Reason = outcome(err)
		r.Error, r.Hint = inFlags(err.Error()), inFlags(corral.Hint(err))
		r.pending(err)
	}
	return r
}

// pending adds the approval that a command waits for.
func (r *Result) pending(err error) {
	p, ok := errors.AsType[*pendingError](err)
	if !ok {
		return
	}
	r.Host, r.Node, r.Cwd = p.rec.Host, p.rec.Node, p.rec.Cwd
	r.Approval = &tool.Approval{
		ApprovalID: p.rec.ID, ApprovalSlug: p.rec.Slug, ExpiresAt: p.rec.ExpiresAt, AllowedDecisions: p.rec.AllowedDecisions,
		Command: p.rec.Text(), Why: p.rec.Decision.Reason,
	}
}

// outcome is what an error says of a command. Lost comes first: of that, no
// other error can say that nothing ran.
func outcome(err error) (tool.Status, tool.Reason) {
	var interrupted foreground.Interruption
	switch {
	case errors.Is(err, corral.ErrLost):
		return tool.StatusUnknown, tool.ReasonLost
	case errors.As(err, &interrupted), errors.Is(err, context.Canceled):
		return tool.StatusFailed, tool.ReasonCancelled
	case errors.Is(err, corral.ErrDenied):
		return tool.StatusDenied, tool.ReasonDenied
	case errors.Is(err, corral.ErrApproval):
		return tool.StatusApprovalPending, ""
	case errors.Is(err, corral.ErrDir):
		return tool.StatusFailed, tool.ReasonWorkdir
	case errors.Is(err, corral.ErrConflict):
		return tool.StatusFailed, tool.ReasonConflict
	case errors.Is(err, corral.ErrInvalid):
		return tool.StatusFailed, tool.ReasonInvalid
	case errors.Is(err, corral.ErrUnavailable):
		return tool.StatusFailed, tool.ReasonUnavailable
	}
	return tool.StatusFailed, tool.ReasonInternal
}

// A failure is what a command prints with --json that has nothing else to print.
type failure struct {
	Status tool.Status `json:"status,omitempty"`
	Reason tool.Reason `json:"reason,omitempty"`
	Error  string      `json:"error,omitempty"` // one line
	Hint   string      `json:"hint,omitempty"`  // one line
}

// newFailure is empty for no error.
func newFailure(err error) failure {
	if err == nil {
		return failure{}
	}
	f := failure{Error: inWords(err), Hint: inFlags(corral.Hint(err))}
	f.Status, f.Reason = outcome(err)
	switch {
	case f.Reason != tool.ReasonInternal:
	case errors.Is(err, corral.ErrNotFound):
		f.Reason = tool.ReasonNotFound
	case errors.Is(err, corral.ErrEnded), errors.Is(err, corral.ErrRunning), errors.Is(err, corral.ErrStdinClosed):
		f.Reason = reasonState
	}
	return f
}
