package tool

import (
	"time"

	"github.com/corral-exec/corral"
)

// Limits and defaults of process.
const (
	MaxPoll     = 2 * time.Minute  // ProcessRequest.Timeout of a poll, which has none by default
	DefaultWait = 30 * time.Second // ProcessRequest.Timeout of a wait
	MaxWait     = 10 * time.Minute

	// LogLines is how many lines a log has that is asked for without an
	// offset and a limit.
	LogLines = 200

	maxCells = 10_000 // rows or columns of a terminal
)

// Action is what to do with sessions. The set is closed.
type Action string

const (
	ActionList     Action = "list"
	ActionPoll     Action = "poll"
	ActionLog      Action = "log"
	ActionWait     Action = "wait"
	ActionWrite    Action = "write"
	ActionSendKeys Action = "send-keys"
	ActionSubmit   Action = "submit"
	ActionPaste    Action = "paste"
	ActionResize   Action = "resize"
	ActionAttach   Action = "attach"
	ActionKill     Action = "kill"
	ActionClear    Action = "clear"
	ActionRemove   Action = "remove"
)

var actions = []Action{
	ActionList, ActionPoll, ActionLog, ActionWait, ActionWrite, ActionSendKeys, ActionSubmit, ActionPaste,
	ActionResize, ActionAttach, ActionKill, ActionClear, ActionRemove,
}

// A ProcessRequest is something to do with a session. Fields that the action
// does not use are ignored.
type ProcessRequest struct {
	Action    Action `json:"action" jsonschema:"What to do. list: all sessions. poll: new output since the last poll. log: output by lines. wait: block until the end, new output or a pattern. write, send-keys, submit (Enter), paste: input. resize: the terminal. attach: where to stream it. kill: end it. clear: forget an ended one. remove: end it and forget it."`
	SessionID string `json:"sessionId,omitempty" jsonschema:"The session. Required for every action but list."`

	Data string `json:"data,omitempty" jsonschema:"write: what to write to standard input, as it stands. A line needs its newline."`
	EOF  bool   `json:"eof,omitempty" jsonschema:"write: then close standard input."`

	Keys    []string `json:"keys,omitempty" jsonschema:"send-keys: names as in tmux (Enter, Up, C-c, M-x, F5 …), and single characters."`
	Hex     []string `json:"hex,omitempty" jsonschema:"send-keys: bytes in hexadecimal, sent before keys."`
	Literal string   `json:"literal,omitempty" jsonschema:"send-keys: text as it stands, sent first."`

	Text      string `json:"text,omitempty" jsonschema:"paste: the text."`
	Bracketed *bool  `json:"bracketed,omitempty" jsonschema:"paste: mark it as pasted, so that the program does not take it for typing."`

	Offset *int `json:"offset,omitempty" jsonschema:"log: the first line, counted from 0."`
	Limit  *int `json:"limit,omitempty" jsonschema:"log: how many lines. Without an offset, the last ones."`

	Timeout *int `json:"timeout,omitempty" jsonschema:"poll, wait: milliseconds to wait. A poll does not wait by default and waits for 120000 at most, a wait for 30000 by default and 600000 at most."`

	Until   Until  `json:"until,omitempty" jsonschema:"wait: what for. The end of the command ends every wait. The default is pattern if there is one, else exit."`
	Pattern string `json:"pattern,omitempty" jsonschema:"wait: a regular expression (RE2) to find in the output that was not polled yet."`

	Rows *int `json:"rows,omitempty" jsonschema:"resize: lines of the terminal."`
	Cols *int `json:"cols,omitempty" jsonschema:"resize: columns of the terminal."`
}

// Until is what a wait is for. The set is closed.
type Until string

const (
	UntilExit    Until = "exit"
	UntilOutput  Until = "output"
	UntilPattern Until = "pattern"
)

// A ProcessResult is what came of a ProcessRequest. Which of the embedded
// shapes it has goes with its Action and its Status; their fields are its own
// in JSON.
type ProcessResult struct {
	Action Action `json:"action"`
	// Status is that of the session, or StatusFailed or StatusDenied with an
	// Error if the action did not work. Of a list, StatusCompleted.
	Status Status `json:"status"`
	Reason Reason `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"` // one line
	Hint   string `json:"hint,omitempty"`  // what to do about it

	SessionID string `json:"sessionId,omitempty"`
	Name      string `json:"name,omitempty"` // short: verb and object

	*SessionList
	*SessionEnd
	*SessionOutput
	*LogPage
	*WaitEnd
	*Stream

	BytesWritten *int     `json:"bytesWritten,omitempty"` // of write, send-keys and paste
	Warnings     []string `json:"warnings"`               // complete sentences; never nil

	// What Text says besides.
	closed bool         // standard input
	size   *corral.Size // of the terminal
}

// SessionList is the answer of list, newest first.
type SessionList struct {
	Sessions []SessionEntry `json:"sessions"` // never nil
}

// A SessionEntry is one session of a list.
type SessionEntry struct {
	SessionID string `json:"sessionId"`
	Status    Status `json:"status"`
	Reason    Reason `json:"reason,omitempty"`
	Name      string `json:"name"`
	Command   string `json:"command"` // of a long one, the beginning and the end
	// Description is what it is for, as its caller said.
	Description string `json:"description,omitempty"`

	PID       int         `json:"pid"` // 0: not known
	Host      corral.Host `json:"host,omitempty"`
	Node      string      `json:"node,omitempty"`
	Sandboxed bool        `json:"sandboxed"`
	Cwd       string      `json:"cwd"`
	PTY       bool        `json:"pty"`

	StartedAt  time.Time  `json:"startedAt"`
	EndedAt    *time.Time `json:"endedAt,omitempty"`
	RuntimeMs  int64      `json:"runtimeMs"`
	Background bool       `json:"background"`

	corral.ExitStatus

	OutputBytes     int64 `json:"outputBytes"`
	Truncated       bool  `json:"truncated"` // the log itself had to drop bytes
	WaitingForInput bool  `json:"waitingForInput,omitempty"`
	Unreachable     bool  `json:"unreachable,omitempty"` // the rest is what was known last
}

// SessionEnd is how a session ended, if it has.
type SessionEnd struct {
	corral.ExitStatus
	DurationMs int64 `json:"durationMs"`
}

// SessionOutput is output that poll, log and wait show.
type SessionOutput struct {
	Output string `json:"output"`
	// Truncated says that Output leaves out some of what was asked for; log with an
	// offset has it, unless OmittedBytes says that it is gone.
	Truncated    bool  `json:"truncated"`
	OutputBytes  int64 `json:"outputBytes"`            // all that the command wrote so far
	OmittedBytes int64 `json:"omittedBytes,omitempty"` // of that, what the log had to drop
	// RetryInMs is when the next poll makes sense. 0: the session has ended.
	RetryInMs       int64 `json:"retryInMs,omitempty"`
	WaitingForInput bool  `json:"waitingForInput,omitempty"` // a guess
}

// LogPage says which lines a log shows.
type LogPage struct {
	Offset     int  `json:"offset"` // of the first line, counted from 0
	Lines      int  `json:"lines"`
	TotalLines int  `json:"totalLines"`
	Default    bool `json:"default,omitempty"` // they are the last ones because none were asked for
}

// WaitEnd is what ended a wait.
type WaitEnd struct {
	Met   string `json:"met"`             // "exit", "output" or "pattern"; "" if its time was up
	Match string `json:"match,omitempty"` // what the pattern found
}

// Stream is where a session can be attached to.
type Stream struct {
	Path string `json:"path"` // of the API
}

// Failed reports whether the action did not work.
func (r ProcessResult) Failed() bool { return r.Error != "" }
