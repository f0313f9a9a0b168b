package guard

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A DeniedError is a command that may not run. It is an ErrDenied.
type DeniedError struct {
	Decision policy.Decision
	Reason   string // one line; the decision's, or what came on top of it
}

func (e *DeniedError) Error() string { return "exec denied: " + e.Reason }

// LogValue leaves the command out, which Error quotes.
func (e *DeniedError) LogValue() slog.Value {
	if r := e.Decision.Rule; r != nil {
		return slog.StringValue("exec denied by the rule in " + r.Source.String())
	}
	return slog.StringValue("exec denied")
}

// Unwrap gives the kind and the hint.
func (e *DeniedError) Unwrap() error {
	return &corral.Error{Kind: corral.ErrDenied, Text: e.Reason, Hint: strings.Join(e.Decision.Fix, "; or ")}
}

// Details are for whoever gets the error over HTTP.
func (e *DeniedError) Details() any { return e.Decision }

// A PendingError is a command that runs when somebody approves it. It is an
// ErrApproval.
type PendingError struct{ Record approval.Record }

func (e *PendingError) Error() string {
	return fmt.Sprintf("approval %s is pending: %s", e.Record.Slug, e.Record.Decision.Reason)
}

// LogValue leaves the command out, which Error quotes.
func (e *PendingError) LogValue() slog.Value {
	return slog.StringValue("approval " + e.Record.Slug + " is pending")
}

// Unwrap gives the kind and the hint.
func (e *PendingError) Unwrap() error {
	return &corral.Error{Kind: corral.ErrApproval, Text: e.Error(), Hint: "corral approvals allow " + e.Record.Slug}
}

// Details are for whoever gets the error over HTTP.
func (e *PendingError) Details() any { return Shown(e.Record) }

// Shown is a record as others see it: without what is kept to run the command
// later, and with the ID that it gets then.
func Shown(rec approval.Record) approval.Record {
	rec.CommandID = cmp.Or(rec.CommandID, CommandID(rec))
	rec.Note, rec.Version, rec.Remembered = nil, 0, false
	return rec
}
