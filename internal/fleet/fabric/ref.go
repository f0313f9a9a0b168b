package fabric

import (
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// A Ref is the process that a request means. An ID that was removed may be another
// process's by now; so a request says when the one that it means was started, by the
// node's clock, if that is known (Unix ns; 0 if not). Requests have it in the place of
// the ID.
type Ref struct {
	ID      string
	Started int64
}

const refMark = "@" // is in no ID

func (r Ref) String() string {
	if r.Started == 0 {
		return r.ID
	}
	return r.ID + refMark + strconv.FormatInt(r.Started, 10)
}

// parseRef reads a Ref. What is none stays as it is, and is no ID.
func parseRef(s string) Ref {
	id, text, some := strings.Cut(s, refMark)
	started, err := strconv.ParseInt(text, 10, 64)
	if !some || err != nil || started <= 0 {
		return Ref{ID: s}
	}
	return Ref{id, started}
}

// check reports whether a process is the one that is meant, and not one that was
// started later.
func (r Ref) check(p corral.Process) error {
	if at := p.Info().StartedAt; r.Started != 0 && !at.IsZero() && at.After(time.Unix(0, r.Started)) {
		return corral.Errorf(corral.ErrNotFound, "", "process %s was removed, and another has its ID now", r.ID)
	}
	return nil
}
