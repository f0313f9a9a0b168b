package fabric

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"

	"github.com/corral-exec/corral"
)

// An epoch is a random number that a node makes when it starts, and every epochEvery
// after that. Hellos tell it, and a request names it. The node accepts a request while
// it knows the epoch, so the two need not have the same clock. The numbers are in
// memory alone: the node's next life knows none of them.
const (
	epochEvery = 30 * time.Second
	// epochLife is the time in which the node knows an epoch. A gateway signs with an
	// epoch that is at most as old as epochEvery and the time between two hellos, and
	// repeats the request for Lifetime.
	epochLife = 3 * time.Minute
)

// epochs are the epochs that a node knows, the last one at the end.
type epochs []epoch

type epoch struct {
	n  uint64 // never 0
	at time.Time
}

// age is the time since e began, by the clock that shows more: one clock may have
// stopped while the machine slept, and the other may have been set back.
func (e epoch) age(now time.Time) time.Duration {
	return max(now.Sub(e.at), now.Round(0).Sub(e.at.Round(0)))
}

// now returns the current epoch, and begins a new one when it is time.
func (e *epochs) now(now time.Time) uint64 {
	*e = slices.DeleteFunc(*e, func(e epoch) bool { return e.age(now) > epochLife })
	if len(*e) == 0 || (*e)[len(*e)-1].age(now) >= epochEvery {
		*e = append(*e, epoch{newEpoch(), now})
	}
	return (*e)[len(*e)-1].n
}

// knows reports whether n is a recent epoch.
func (e epochs) knows(n uint64, now time.Time) bool {
	return slices.ContainsFunc(e, func(e epoch) bool { return e.n == n && e.age(now) <= epochLife })
}

func newEpoch() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // it never fails
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// epoch returns the node's current epoch.
func (n *node) epoch() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epochs.now(n.now())
}

// timelyLocked reports whether e was made in an epoch that the node still knows.
// n.mu is held.
func (n *node) timelyLocked(e *Envelope, now time.Time) error {
	if !n.epochs.knows(e.Epoch, now) {
		return corral.Errorf(corral.ErrUnavailable, "try again",
			"the request is too old, or was never meant for node %s: the node does not know its epoch", n.id)
	}
	return nil
}
