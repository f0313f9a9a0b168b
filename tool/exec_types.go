package tool

import (
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// Limits and defaults of exec.
const (
	DefaultYield = 10 * time.Second // ExecRequest.YieldMs
	MinYield     = 10 * time.Millisecond
	MaxYield     = 2 * time.Minute

	DefaultTimeout = 30 * time.Minute // ExecRequest.Timeout
	// MaxTimeout is a year. For no time-out there is 0.
	MaxTimeout = 365 * 24 * time.Hour

	// TailChars is how many characters of output the result of a running command
	// shows.
	TailChars = 2000
)

// An ExecRequest says which command to run, and how to wait for it. The zero value of
// a field is its default.
type ExecRequest struct {
	Command string            `json:"command" jsonschema:"Shell text to run. In a sandbox it is read by /bin/sh, which is often not bash: for arrays, [[ ]] or pipefail, call bash -c."`
	Workdir string            `json:"workdir,omitempty" jsonschema:"Working directory. Relative is relative to the agent's workspace, which is the default."`
	Env     map[string]string `json:"env,omitempty" jsonschema:"Environment variables to set for this command."`

	YieldMs    *int `json:"yieldMs,omitempty" jsonschema:"Milliseconds to wait for the command. If it still runs then, it goes on in the background and the result is its sessionId."`
	Background bool `json:"background,omitempty" jsonschema:"Go to the background at once, with standard input left open for process write. For servers, watchers and whatever is to be talked to."`

	Timeout        *float64 `json:"timeout,omitempty" jsonschema:"Seconds until the whole process tree is killed, also in the background. Fractions are allowed; 0 is never."`
	TimeoutSeconds *float64 `json:"timeoutSeconds,omitempty" jsonschema:"Another name of timeout."`

	PTY bool `json:"pty,omitempty" jsonschema:"Run on a pseudo-terminal, for programs that need one: editors, REPLs, password prompts. Standard error is then part of standard output."`

	Host     corral.Host     `json:"host,omitempty" jsonschema:"Where to run: sandbox (an isolated container), gateway (the machine of the agent platform) or node (a paired remote machine). The default is what is configured, else sandbox. It is not a host name."`
	Security policy.Security `json:"security,omitempty" jsonschema:"What may run on gateway and node. A call can only tighten what is configured."`
	Ask      policy.Ask      `json:"ask,omitempty" jsonschema:"When a command on gateway or node needs an approval. A call can only tighten what is configured."`
	Node     string          `json:"node,omitempty" jsonschema:"Which node, with host=node: its id, name, address or an unambiguous beginning of its id; or pool:NAME, any of those labelled pool=NAME."`
	Elevated bool            `json:"elevated,omitempty" jsonschema:"Ask to leave the sandbox for the gateway, where that is allowed."`

	SessionID    string `json:"sessionId,omitempty" jsonschema:"An id of your choice for the session. The same id again runs nothing: it returns the session that has it."`
	NotifyOnExit *bool  `json:"notifyOnExit,omitempty" jsonschema:"Send an event when the command ends in the background."`
}

// Status is the outcome of a call. The set is closed.
type Status string

const (
	StatusCompleted       Status = "completed"        // it ended by itself, with any exit code or signal
	StatusRunning         Status = "running"          // it goes on in the background
	StatusFailed          Status = "failed"           // it did not start, or Corral ended it: see Reason
	StatusUnknown         Status = "unknown"          // it cannot be known whether it ran, or how it ended
	StatusApprovalPending Status = "approval-pending" // it has not run, and will once it is allowed
	StatusDenied          Status = "denied"           // it has not run, and may not
)

// Reason is why a result is failed, denied or unknown. The set is closed.
type Reason string

const (
	ReasonTimeout     Reason = "timeout"     // its time was up, and its process tree was killed
	ReasonOOM         Reason = "oom"         // it was killed because there was no memory left
	ReasonCancelled   Reason = "cancelled"   // the call was cancelled while it was in its foreground
	ReasonKilled      Reason = "killed"      // process kill, or remove
	ReasonInvalid     Reason = "invalid"     // the request is malformed
	ReasonWorkdir     Reason = "workdir"     // there is no such working directory
	ReasonNotFound    Reason = "not-found"   // there is no such session
	ReasonEnded       Reason = "ended"       // the session has ended, or its input is closed
	ReasonUnavailable Reason = "unavailable" // the host cannot be used now; nothing ran
	ReasonConflict    Reason = "conflict"    // another command has its sessionId
	ReasonUnsupported Reason = "unsupported" // the host cannot do that
	ReasonNotStarted  Reason = "not-started" // the program died before the command was started; nothing ran
	ReasonDenied      Reason = "denied"      // with StatusDenied
	ReasonLost        Reason = "lost"        // with StatusUnknown
	ReasonInternal    Reason = "internal"    // anything else
)

// An ExecResult is the result of an ExecRequest. Its Status decides which of the embedded
// shapes it has; in JSON their fields are its own.
type ExecResult struct {
	Status Status `json:"status"`
	Reason Reason `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"` // one line
	Hint   string `json:"hint,omitempty"`  // what to do about it

	// SessionID is the session, for process. It is empty if the session was removed: the
	// command ended in the foreground, and the result has all its output.
	SessionID string `json:"sessionId,omitempty"`

	Host      corral.Host `json:"host,omitempty"` // where it really runs, or ran
	Node      string      `json:"node,omitempty"`
	Sandboxed bool        `json:"sandboxed"`
	Cwd       string      `json:"cwd,omitempty"`
	// Enforced says which limits the kernel enforces on the command: "programs, files",
	// or one of the two. Empty: none.
	Enforced string `json:"enforced,omitempty"`

	*Ended
	*Running
	*Approval
	*Denial

	// Notice is one short line that is the same for every command there: that the
	// sandbox is off, and which variables commands do not get.
	Notice   string   `json:"notice,omitempty"`
	Warnings []string `json:"warnings"` // complete sentences about this command; never nil
}

// Ended has the fields for a command that is completed, failed or unknown.
type Ended struct {
	corral.ExitStatus

	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Output string `json:"output"` // both streams, in the order in which they arrived

	DurationMs  int64 `json:"durationMs"`
	Truncated   bool  `json:"truncated"`   // Stdout, Stderr or Output leave bytes out
	OutputBytes int64 `json:"outputBytes"` // size of the whole output
}

// Running has the fields for a command in the background.
type Running struct {
	PID       int       `json:"pid"` // 0: not known
	StartedAt time.Time `json:"startedAt"`
	Tail      string    `json:"tail"` // the last TailChars characters of the output so far
}

// Approval has the fields for a command that waits for an approval.
type Approval struct {
	ApprovalID       string             `json:"approvalId"`
	ApprovalSlug     string             `json:"approvalSlug"` // short, for people
	ExpiresAt        time.Time          `json:"expiresAt"`
	AllowedDecisions []approval.Verdict `json:"allowedDecisions"`
	Command          string             `json:"command"`
	Why              string             `json:"why"` // why it needs one

	// ExecResult.SessionID is the session that the command will have once it is
	// allowed.
}

// Denial says why a command may not run.
type Denial struct {
	Rule  string `json:"rule"`            // the rule or setting that denied it
	Allow string `json:"allow,omitempty"` // a change that would allow it

	// Decision is the policy's decision, if the policy denied it.
	Decision *policy.Decision `json:"decision,omitempty"`
}

// Failed reports whether the call failed. A command that exited with a code other than 0
// is no failed call.
func (r ExecResult) Failed() bool {
	return r.Status == StatusFailed || r.Status == StatusUnknown || r.Status == StatusDenied
}
