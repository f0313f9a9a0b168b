package fabric

import (
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// A Ref identifies the process of a request. An ID that was removed may belong to
// another process by now. So a Ref also has the start time, by the node's clock (Unix
// ns; 0 if not known). Requests have it in the place of the ID.
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

// parseRef reads a Ref. Text that is no Ref becomes the ID, and is not valid as one.
func parseRef(s string) Ref {
	id, text, some := strings.Cut(s, refMark)
	started, err := strconv.ParseInt(text, 10, 64)
	if !some || err != nil || started <= 0 {
		return Ref{ID: s}
	}
	return Ref{id, started}
}

// check reports whether p is the process of the Ref, and not one that was started
// later.
func (r Ref) check(p corral.Process) error {
	if at := p.Info().StartedAt; r.Started != 0 && !at.IsZero() && at.After(time.Unix(0, r.Started)) {
		return corral.Errorf(corral.ErrNotFound, "", "process %s was removed, and another has its ID now", r.ID)
	}
	return nil
}
