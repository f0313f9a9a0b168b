package outlog

import (
	"time"

	"golang.org/x/time/rate"
)

// A Pace bounds how fast output is taken from a process: in bytes a second, and
// as many at once as the largest pipe holds. It may be used from any goroutine;
// nil bounds nothing.
type Pace struct{ tokens *rate.Limiter }

// NewPace returns a Pace of that many bytes a second, and nil for 0.
func NewPace(perSecond int64) *Pace {
	if perSecond <= 0 {
		return nil
	}
	return &Pace{rate.NewLimiter(rate.Limit(perSecond), maxPending)}
}

// Took notes that n bytes were taken, and returns how long to take no more.
func (p *Pace) Took(n int64) (wait time.Duration) {
	if p == nil {
		return 0
	}
	for now := time.Now(); n > 0; n -= maxPending {
		wait = p.tokens.ReserveN(now, int(min(n, maxPending))).DelayFrom(now)
	}
	return wait
}
