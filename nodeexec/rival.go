package nodeexec

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// A message of another life of a node's program says that the node was started anew, or
// that two programs have its key: a machine was copied. So the known life is asked for a
// hello. If it is heard of within rivalGrace, it stays the node, and the other is ignored
// for as long as the known one is online: no request names the other's life, so it runs
// nothing.
const (
	rivalGrace = 500 * time.Millisecond
	rivalEvery = 2 * fabric.Heartbeat // between two questions
)

// rivals is what a peer knows of other programs with the node's key.
type rivals struct {
	asked  time.Time // the known life, because of another
	seen   time.Time // both
	host   string    // the other's name for itself
	warned rate.Sometimes
}

// rivalLocked reports whether a message comes from a life that is not the node's, or not
// yet.
func (p *peer) rivalLocked(boot string, now time.Time) bool {
	if boot == p.told.Boot {
		return false
	}
	r := &p.rivals
	age := now.Sub(r.asked)
	switch known := !p.told.Leaving && p.onlineLocked(); {
	case known && age > rivalEvery:
		r.asked = now
		p.who()
		time.AfterFunc(rivalGrace, p.who) // if the known life is silent, the other's answer is believed
		return true
	case known && p.said.After(r.asked):
		r.seen = now
		r.warned.Do(func() {
			p.f.log.Warn("two programs have the key of one node; the one that was there first is used", "node", p.id, "hint", rivalHint)
		})
		return true
	case known && age < rivalGrace:
		return true
	}
	r.asked = time.Time{}
	return false
}

const rivalHint = "stop corral node on the copy, remove its state directory, and pair it as a machine of its own"

// who asks for a hello. It need not arrive.
func (p *peer) who() { _ = p.f.conn.Conn().Publish(fabric.WhoSubject(p.id), nil) }

// problem says what is wrong with a node that is online; empty: nothing.
func (p *peer) problem(misfit error) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case misfit != nil:
		return misfit.Error()
	case !p.rivals.seen.IsZero() && time.Since(p.rivals.seen) <= 2*rivalEvery:
		return fmt.Sprintf("another program has its key, and is ignored: its host is %.80q; %s", p.rivals.host, rivalHint)
	}
	return ""
}
