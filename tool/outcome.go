package tool

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/session"
)

// Outcome is the status and reason for the error of a call. ErrLost is checked first: with
// it, no other error in the chain proves that nothing ran.
func Outcome(ctx context.Context, err error) (Status, Reason) {
	switch {
	case errors.Is(err, corral.ErrLost):
		return StatusUnknown, ReasonLost
	case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return StatusFailed, ReasonCancelled
	}
	if errors.Is(err, corral.ErrApproval) {
		return StatusApprovalPending, ""
	}
	for _, o := range []struct {
		kind   error
		reason Reason
	}{
		{corral.ErrDenied, ReasonDenied},
		{corral.ErrDir, ReasonWorkdir},
		{corral.ErrConflict, ReasonConflict},
		{corral.ErrNotFound, ReasonNotFound},
		{corral.ErrEnded, ReasonEnded},
		{corral.ErrStdinClosed, ReasonEnded},
		{corral.ErrInvalid, ReasonInvalid},
		{corral.ErrUnavailable, ReasonUnavailable},
		{errors.ErrUnsupported, ReasonUnsupported},
	} {
		if errors.Is(err, o.kind) {
			if o.reason == ReasonDenied {
				return StatusDenied, ReasonDenied
			}
			return StatusFailed, o.reason
		}
	}
	return StatusFailed, ReasonInternal
}

// exitOf is the SessionEnd of a session.
func exitOf(st session.Status) SessionEnd {
	e := SessionEnd{DurationMs: st.Duration(time.Now()).Milliseconds()}
	if st.Exit == nil {
		return e
	}
	if took := st.Exit.EndedAt.Sub(st.Exit.StartedAt); took >= 0 { // both by the clock of its host
		e.DurationMs = took.Milliseconds()
	}
	e.ExitStatus = st.Exit.Status()
	return e
}

// tailBytes is enough for TailChars characters after terminal control is stripped.
const tailBytes = 4 * TailChars

// lastChars is the end of a text.
func lastChars(text string, n int) string {
	for i := len(text); i > 0; n-- {
		if n == 0 {
			return text[i:]
		}
		_, size := utf8.DecodeLastRuneInString(text[:i])
		i -= size
	}
	return text
}

// bounded cuts a text to about limit bytes: its beginning, how much is left out, and its
// end. It reports whether it cut.
func bounded(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	head, tail := words.Ends(text, limit)
	return runner.Excerpt{Head: head, Tail: tail, Omitted: int64(len(text) - len(head) - len(tail))}.String(), true
}
