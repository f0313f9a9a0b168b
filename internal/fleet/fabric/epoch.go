package fabric

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"

	"github.com/corral-exec/corral"
)

// An epoch of a node is a random number that stands for a time of its own, so
// that nobody has to have the same clock. A request names the epoch in which it
// was made, and holds while the node knows that.
const (
	// epochEvery is after how long there is another.
	epochEvery = 30 * time.Second
	// epochLife is for how long it is known. A request is made in one that is
	// at most epochEvery and the time between two hellos old, and is sent again
	// for Lifetime.
	epochLife = 3 * time.Minute
)

// epochs are those that a node knows, the last one at the end.
type epochs []epoch

type epoch struct {
	n  uint64 // never 0
	at time.Time
}

// age is how long ago that was, by whichever clock says more: one of them may
// have stood still while the machine slept, and the other been set back.
func (e epoch) age(now time.Time) time.Duration {
	return max(now.Sub(e.at), now.Round(0).Sub(e.at.Round(0)))
}

// now is the one that it is, and begins another if it is time to.
func (e *epochs) now(now time.Time) uint64 {
	*e = slices.DeleteFunc(*e, func(e epoch) bool { return e.age(now) > epochLife })
	if len(*e) == 0 || (*e)[len(*e)-1].age(now) >= epochEvery {
		*e = append(*e, epoch{newEpoch(), now})
	}
	return (*e)[len(*e)-1].n
}

// knows reports whether n is of late.
func (e epochs) knows(n uint64, now time.Time) bool {
	return slices.ContainsFunc(e, func(e epoch) bool { return e.n == n && e.age(now) <= epochLife })
}

func newEpoch() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // which never fails
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// epoch is that of the node.
func (n *node) epoch() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epochs.now(n.now())
}

// timely reports whether e was made of late: in an epoch of the node or, by a
// gateway that knows none, by the clock. n.mu is held.
func (n *node) timelyLocked(e *Envelope, now time.Time) error {
	switch {
	case e.Epoch == 0 && !e.Agreed:
		return e.CheckTime(now)
	case !n.epochs.knows(e.Epoch, now):
		return corral.Errorf(corral.ErrUnavailable, "try again", "node %s has not said of late what the request was made after", n.id)
	}
	return nil
}
