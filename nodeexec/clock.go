package nodeexec

import (
	"time"

	"github.com/corral-exec/corral"
)

const (
	// clockSlack is the tolerance for two clocks, and for two measurements of their
	// difference: a hello takes a while to arrive.
	clockSlack = 2 * time.Second
	// mostAhead bounds a credible clock difference. Beyond it, times make no sense.
	mostAhead = 100 * 365 * 24 * time.Hour
)

// tunedLocked notes the time on the node. It ignores small changes, so that the times
// of a process stay the same.
func (p *peer) tunedLocked(clock int64, now time.Time) {
	if clock == 0 {
		return
	}
	ahead := now.Sub(time.UnixMilli(clock))
	switch {
	case (ahead - p.ahead).Abs() <= clockSlack:
	case ahead.Abs() > mostAhead, ahead.Abs() <= clockSlack:
		p.ahead = 0
	default:
		p.ahead = ahead
	}
}

// here converts times of the node to the clock of this machine, since callers compare
// them with it.
func (p *peer) here(times ...*time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range times {
		if p.ahead != 0 && !t.IsZero() {
			*t = t.Add(p.ahead)
		}
	}
}

func (p *peer) exitHere(e corral.Exit) corral.Exit {
	p.here(&e.StartedAt, &e.EndedAt)
	return e
}
