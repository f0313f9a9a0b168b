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
	if q, ok := inner[interface{ Origin() *Origin }](p); ok {
		return q.Origin()
	}
	return nil
}

// NodeOf returns what identifies the node of p: its id, since its name may change, or
// the name if it has no id. Empty: p is on no node.
func NodeOf(p corral.Process) string {
	if q, ok := inner[interface{ NodeID() string }](p); ok && p.Info().Host == corral.HostNode {
		return q.NodeID()
	}
	return p.Info().Node
}

// inner returns the first of p, and of what it wraps, that is a T.
func inner[T any](p corral.Process) (t T, ok bool) {
	for {
		if q, ok := p.(T); ok {
			return q, true
		}
		w, ok := p.(interface{ Unwrap() corral.Process })
		if !ok {
			return t, false
		}
		p = w.Unwrap()
	}
}

// InfoOf is all that is known of p.
func InfoOf(p corral.Process) Info { return Info{p.Info(), Of(p)} }
