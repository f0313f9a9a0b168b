package nodeexec

import (
	"time"

	"golang.org/x/time/rate"
)

// warns limits the log lines that nodes can cause.
type warns struct {
	all       *rate.Limiter
	strangers *rate.Limiter // a former node says hello for ever
}

func newWarns() warns {
	return warns{rate.NewLimiter(5, 20), rate.NewLimiter(rate.Every(time.Minute), 10)}
}

// warn logs a node's misbehaviour, at a limited rate.
func (f *Fabric) warn(text string, args ...any) {
	if f.warns.all.Allow() {
		f.log.Warn(text, args...)
	}
}

func (f *Fabric) warnOfStranger(node string) {
	if f.warns.strangers.Allow() {
		f.log.Warn("refused a message of a node that is not paired", "node", node)
	}
}
