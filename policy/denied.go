package policy

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/corral-exec/corral"
)

// A DeniedError says that a command may not run. It is an ErrDenied.
type DeniedError struct {
	Decision Decision
	Reason   string // one line; the decision's, or the guard's, such as a person's answer
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

// Details is sent with the error over HTTP.
func (e *DeniedError) Details() any { return e.Decision }

// AsDenied returns the decision of a command that was denied, if err has one.
func AsDenied(err error) (*DeniedError, bool) {
	return errors.AsType[*DeniedError](err)
}
