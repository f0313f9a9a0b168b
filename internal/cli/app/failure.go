package app

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/tool"
)

// reasonState is for sessions that have ended, or have not, or take no input.
const reasonState tool.Reason = "state"

// Outcome is what an error says of a command. Lost comes first: of that, no
// other error can say that nothing ran.
func Outcome(err error) (tool.Status, tool.Reason) {
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

// A Failure is what a command prints with --json that has nothing else to print.
type Failure struct {
	Status tool.Status `json:"status,omitempty"`
	Reason tool.Reason `json:"reason,omitempty"`
	Error  string      `json:"error,omitempty"` // one line
	Hint   string      `json:"hint,omitempty"`  // one line
}

// NewFailure is empty for no error.
func NewFailure(err error) Failure {
	if err == nil {
		return Failure{}
	}
	f := Failure{Error: inWords(err), Hint: InFlags(corral.Hint(err))}
	f.Status, f.Reason = Outcome(err)
	switch {
	case f.Reason != tool.ReasonInternal:
	case errors.Is(err, corral.ErrNotFound):
		f.Reason = tool.ReasonNotFound
	case errors.Is(err, corral.ErrEnded), errors.Is(err, corral.ErrRunning), errors.Is(err, corral.ErrStdinClosed):
		f.Reason = reasonState
	}
	return f
}
