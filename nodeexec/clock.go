package nodeexec

import (
	"time"

	"github.com/corral-exec/corral"
)

const (
	// clockSlack is how far apart two clocks are that are taken to be the same,
	// and two measures of how far they are: a hello takes a while to arrive.
	clockSlack = 2 * time.Second
	// mostAhead bounds what is believed of a clock: further away, every time is
	// nonsense, and so is the difference of two.
	mostAhead = 100 * 365 * 24 * time.Hour
)

// tunedLocked takes notice of what time it is on the node. Small changes are none:
// the times of a process do not jump about.
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

// here are times of the node by the clock of this machine: a program that looks at them
// compares them with it.
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
