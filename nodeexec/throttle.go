package nodeexec

import (
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Limits of a node's unrequested messages, per second and in a burst. Hellos are few:
// one every five seconds, and one for each connection. Late output for closed readers
// may be all that they were granted.
const (
	hellosRate, hellosBurst = 20, 200
	lateRate, lateBurst     = 1000, 10_000
)

// toldOfDrops is the time between two log lines about a node's dropped messages.
const toldOfDrops = time.Minute

// A throttle limits a node's unrequested messages. Awaited messages do not go through
// it.
type throttle struct {
	hellos, late *rate.Limiter
	dropped      atomic.Int64 // since the last log line about them
	telling      rate.Sometimes
}

func newThrottle() *throttle {
	return &throttle{
		hellos: rate.NewLimiter(hellosRate, hellosBurst), late: rate.NewLimiter(lateRate, lateBurst),
		telling: rate.Sometimes{Interval: toldOfDrops},
	}
}

// lets reports whether the limiter lets another message through. Otherwise drop the
// message, as if it had been lost.
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
