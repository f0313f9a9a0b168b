// Package origin is what a process was begun as, and for whom. A warden and a node
// keep it beside the process, for programs that have not started it: a later life of
// the gateway whose table was damaged, and other gateways.
package origin

import (
	"time"

	"github.com/corral-exec/corral"
)

// Origin is what a process was begun as.
type Origin struct {
	Agent   string        `json:"agent"`             // whose command it is
	Command string        `json:"command,omitempty"` // as it was given; of a long one the beginning
	TTY     bool          `json:"tty,omitempty"`
	Stdin   bool          `json:"stdin,omitempty"`
	Merged  bool          `json:"merged,omitempty"` // see corral.Command.MergeStderr
	Grace   time.Duration `json:"grace,omitempty"`
}

// New is the origin of a command of an agent, which is shown as text.
func New(agent, text string, cmd corral.Command) Origin {
	return Origin{Agent: agent, Command: text, TTY: cmd.TTY != nil, Stdin: cmd.Stdin, Merged: cmd.MergeStderr, Grace: cmd.Grace}
}

// Info is what is kept and sent of a process: the public part, and what it was begun
// as. In JSON it is one object.
type Info struct {
	corral.Info
	Origin *Origin `json:"origin,omitempty"` // nil: not known
}

// Of returns what p was begun as, or nil if that is not known. It looks through
// processes that wrap another one and have a method Unwrap.
func Of(p corral.Process) *Origin {
	for {
		switch q := p.(type) {
		case interface{ Origin() *Origin }:
			return q.Origin()
		case interface{ Unwrap() corral.Process }:
			p = q.Unwrap()
		default:
			return nil
		}
	}
}

// InfoOf is all that is known of p.
func InfoOf(p corral.Process) Info { return Info{p.Info(), Of(p)} }
