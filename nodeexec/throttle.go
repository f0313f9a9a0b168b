package nodeexec

import (
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// What a node may say that nobody waits for, a second and at once. Hellos are few:
// one every five seconds, and one for each connection. What it answers late, to
// readers that have been closed, may be all that they were granted.
const (
	hellosRate, hellosBurst = 20, 200
	lateRate, lateBurst     = 1000, 10_000
)

// toldOfDrops is how often a line is written about what one node says too much.
const toldOfDrops = time.Minute

// A throttle bounds what a node says unasked. What the gateway waits for does not
// go through it.
type throttle struct {
	hellos, late *rate.Limiter
	dropped      atomic.Int64 // messages, since the last line about that
	telling      rate.Sometimes
}

func newThrottle() *throttle {
	return &throttle{
		hellos: rate.NewLimiter(hellosRate, hellosBurst), late: rate.NewLimiter(lateRate, lateBurst),
		telling: rate.Sometimes{Interval: toldOfDrops},
	}
}

// lets reports whether another message is let through that the limiter counts. If
// not it is to be dropped, as if it had been lost.
func (t *throttle) lets(by *rate.Limiter, node string, log *slog.Logger) bool {
	if by.Allow() {
		return true
	}
	t.dropped.Add(1)
	t.telling.Do(func() {
		log.Warn("a node says too much that it was not asked; the rest is dropped", "node", node, "dropped", t.dropped.Swap(0))
	})
	return false
}
