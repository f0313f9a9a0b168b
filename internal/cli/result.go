package cli

import (
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
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
		r.Status, r.Reason = app.Outcome(err)
		r.Error, r.Hint = app.InFlags(err.Error()), app.InFlags(corral.Hint(err))
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
