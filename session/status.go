package session

import (
	"time"

	"github.com/corral-exec/corral"
)

// State is where a session is in its life. The set is closed.
type State string

const (
	Running   State = "running"
	Completed State = "completed" // ended by itself, with whatever code or signal
	Failed    State = "failed"    // it was ended, or never began: see Reason
	Unknown   State = "unknown"   // it cannot be known whether, or how, it ended
)

// Reason is why a session is Failed or Unknown. The set is closed.
type Reason string

const (
	ReasonTimeout    Reason = "timeout"     // its time-out expired and the tree was killed
	ReasonOOM        Reason = "oom"         // it was killed because there was no memory left
	ReasonCancelled  Reason = "cancelled"   // the call it was in the foreground of was cancelled
	ReasonKilled     Reason = "killed"      // Session.Kill
	ReasonNotStarted Reason = "not-started" // the program died before the command was started: nothing ran
	ReasonLost       Reason = "lost"        // Unknown
)

// Status describes a session at one moment.
type Status struct {
	ID     string `json:"sessionId"`
	Agent  string `json:"agent"`
	Key    string `json:"key,omitempty"` // the name of the one that it was begun by, at a gateway
	State  State  `json:"status"`
	Reason Reason `json:"reason,omitempty"`
	// Detail is a sentence about a Reason that needs one, such as why it is
	// not known how the session ended.
	Detail string `json:"detail,omitempty"`

	Name    string `json:"name"`    // short, for lists: verb and object
	Command string `json:"command"` // as it was given; of a long one the beginning and the end
	// Description is what it is for, as its caller says.
	Description string `json:"description,omitempty"`
	TTY         bool   `json:"tty,omitempty"`
	Stdin       bool   `json:"stdin,omitempty"` // Write may work

	// Of corral.Info. PID is 0 until the session has begun.
	PID       int         `json:"pid"`
	Host      corral.Host `json:"host,omitempty"`
	Node      string      `json:"node,omitempty"`
	Sandboxed bool        `json:"sandboxed"`
	Dir       string      `json:"cwd"`
	StartedAt time.Time   `json:"startedAt"`
	Notice    string      `json:"notice,omitempty"`
	Warnings  []string    `json:"warnings,omitempty"`
	// Enforced is what the kernel keeps it to; nil: nothing.
	Enforced *corral.Enforced `json:"enforced,omitempty"`

	Background bool       `json:"background"` // no call has it in its foreground
	Exit       *Exit      `json:"exit,omitempty"`
	EndedAt    *time.Time `json:"endedAt,omitempty"`

	OutputBytes  int64 `json:"outputBytes"`            // written by the command so far
	OmittedBytes int64 `json:"omittedBytes,omitempty"` // that the log does not have any more
	// WaitingForInput is a guess: input is open, and the output stopped
	// InputIdle ago, or PromptIdle ago at a prompt: within a line.
	WaitingForInput bool `json:"waitingForInput,omitempty"`
	// Unreachable says that the executor cannot be reached now, so that
	// what is said here is what was known last.
	Unreachable bool `json:"unreachable,omitempty"`
}

// Ended reports whether nothing more will come of the session.
func (s Status) Ended() bool { return s.State != Running }

// Duration is how long the session has run, or ran.
func (s Status) Duration(now time.Time) time.Duration {
	if s.EndedAt != nil {
		now = *s.EndedAt
	}
	return max(0, now.Sub(s.StartedAt))
}

// InputIdle is how long a command that can read input is silent before it is
// taken to be waiting for some; after a prompt, PromptIdle.
const (
	InputIdle  = 15 * time.Second
	PromptIdle = time.Second
)
