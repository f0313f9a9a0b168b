package tool

import (
	"time"

	"github.com/corral-exec/corral"
)

// Defaults are what requests go by that say nothing.
type Defaults struct {
	Workdir string // relative is relative to the executor's workspace

	Host     corral.Host // empty: the router's default
	Node     string
	Security Security // empty: decided by the policy
	Ask      Ask      // empty: decided by the policy

	Yield   time.Duration // 0: DefaultYield
	Timeout time.Duration // 0: DefaultTimeout; negative: none
	Grace   time.Duration // between SIGTERM and SIGKILL; 0: corral.DefaultGrace

	PathPrepend []string // before PATH
	Log         corral.LogLimit

	NotifyOnExit *bool // nil: true
}

func (d Defaults) host() corral.Host {
	if d.Host == "" {
		return corral.HostSandbox
	}
	return d.Host
}

func (d Defaults) yield() time.Duration {
	if d.Yield == 0 {
		return DefaultYield
	}
	return min(max(d.Yield, MinYield), MaxYield)
}

// timeout is 0 for none.
func (d Defaults) timeout() time.Duration {
	switch {
	case d.Timeout == 0:
		return DefaultTimeout
	case d.Timeout < 0:
		return 0
	}
	return d.Timeout
}

func (d Defaults) notifyOnExit() bool { return d.NotifyOnExit == nil || *d.NotifyOnExit }

// DefaultMaxOutput is how many bytes of output a result shows when
// Config.MaxOutput is 0.
const DefaultMaxOutput = 100_000
