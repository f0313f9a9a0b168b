package session

import (
	"time"

	"github.com/corral-exec/corral"
)

// State is the state of a session. The set is closed.
type State string

const (
	Running   State = "running"
	Completed State = "completed" // ended by itself, with any code or signal
	Failed    State = "failed"    // it was ended, or never began: see Reason
	Unknown   State = "unknown"   // unknown whether, or how, it ended
)

// Reason is why a session is Failed or Unknown. The set is closed.
type Reason string

const (
	ReasonTimeout    Reason = "timeout"     // its time-out expired and the tree was killed
	ReasonOOM        Reason = "oom"         // it was killed because memory ran out
	ReasonCancelled  Reason = "cancelled"   // the call it was in the foreground of was cancelled
	ReasonKilled     Reason = "killed"      // Session.Kill
	ReasonNotStarted Reason = "not-started" // the program died before the command was started: nothing ran
	ReasonLost       Reason = "lost"        // Unknown
)

// An Outcome is what became of a session.
type Outcome struct {
	State  State  `json:"status"`
	Reason Reason `json:"reason,omitempty"`
	// Detail explains a Reason that needs it, such as why it is unknown how the session
	// ended.
	Detail string       `json:"detail,omitempty"`
	Exit   *corral.Exit `json:"exit,omitempty"` // nil while it runs, and if it is unknown
}

// Status describes a session at one moment.
type Status struct {
	ID    string `json:"sessionId"`
	Agent string `json:"agent"`
	Key   string `json:"key,omitempty"` // the name of the gateway's key that began it
	Outcome

	Name    string `json:"name"`    // short, for lists: verb and object
	Command string `json:"command"` // as given; of a long one only the beginning and the end
	// Description is the caller's text about the purpose.
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
	// Enforced is what the kernel enforces; nil: nothing.
	Enforced *corral.Enforced `json:"enforced,omitempty"`

	Background bool       `json:"background"` // it is in no call's foreground
	EndedAt    *time.Time `json:"endedAt,omitempty"`

	OutputBytes  int64 `json:"outputBytes"`            // written by the command so far
	OmittedBytes int64 `json:"omittedBytes,omitempty"` // that the log no longer has
	// WaitingForInput is a guess: input is open, and the output stopped InputIdle ago.
	// At a prompt (output that ends within a line) PromptIdle is enough.
	WaitingForInput bool `json:"waitingForInput,omitempty"`
	// Unreachable reports that the executor cannot be reached now. The Status is the
	// last known one.
	Unreachable bool `json:"unreachable,omitempty"`
}

// Ended reports whether the session has ended.
func (s Status) Ended() bool { return s.State != Running }

// Duration is how long the session has run, or ran.
func (s Status) Duration(now time.Time) time.Duration {
	if s.EndedAt != nil {
		now = *s.EndedAt
	}
	return max(0, now.Sub(s.StartedAt))
}

// A command that can read input counts as waiting for it after InputIdle without
// output; after a prompt, after PromptIdle.
const (
	InputIdle  = 15 * time.Second
	PromptIdle = time.Second
)
