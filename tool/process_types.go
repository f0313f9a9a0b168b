package tool

import (
	"time"

	"github.com/corral-exec/corral"
)

// Limits and defaults of process.
const (
	MaxPoll     = 2 * time.Minute  // longest ProcessRequest.Timeout of a poll; the default is 0
	DefaultWait = 30 * time.Second // ProcessRequest.Timeout of a wait
	MaxWait     = 10 * time.Minute

	// LogLines is how many lines a log shows if offset and limit are not given.
	LogLines = 200

	maxCells = 10_000 // rows or columns of a terminal
)

// Action is an action on sessions. The set is closed.
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

// A ProcessRequest asks for an action on a session. Fields that the action does not use
// are ignored.
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
	Pattern string `json:"pattern,omitempty" jsonschema:"wait: a regular expression (RE2) to find in the output that was not polled yet, and that came after the last input."`

	Rows *int `json:"rows,omitempty" jsonschema:"resize: lines of the terminal."`
	Cols *int `json:"cols,omitempty" jsonschema:"resize: columns of the terminal."`
}

// Until is the condition that ends a wait. The set is closed.
type Until string

const (
	UntilExit    Until = "exit"
	UntilOutput  Until = "output"
	UntilPattern Until = "pattern"
)

// A ProcessResult is the result of a ProcessRequest. Its Action and its Status decide
// which of the embedded shapes it has; in JSON their fields are its own.
type ProcessResult struct {
	Action Action `json:"action"`
	// Status is that of the session. If the action failed, it is StatusFailed or
	// StatusDenied, with an Error. For a list it is StatusCompleted.
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

	BytesWritten *int     `json:"bytesWritten,omitempty"` // for write, send-keys and paste
	Warnings     []string `json:"warnings"`               // complete sentences; never nil

	// Further facts for Text.
	closed bool         // standard input was closed
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
	Command   string `json:"command"` // a long one is cut to its beginning and its end
	// Description is the purpose of the command, as its caller stated it.
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
	Unreachable     bool  `json:"unreachable,omitempty"` // the other fields have the last known state
}

// SessionEnd is how a session ended, if it has.
type SessionEnd struct {
	corral.ExitStatus
	DurationMs int64 `json:"durationMs"`
}

// SessionOutput is the output that poll, log and wait show.
type SessionOutput struct {
	Output string `json:"output"`
	// Truncated: Output does not have all that was asked for. log with an offset shows
	// the rest, unless the log had to drop it (OmittedBytes).
	Truncated    bool  `json:"truncated"`
	OutputBytes  int64 `json:"outputBytes"`            // size of the output so far
	OmittedBytes int64 `json:"omittedBytes,omitempty"` // the part of it that the log had to drop
	// RetryInMs is the time until the next poll makes sense. 0: the session has ended.
	RetryInMs       int64 `json:"retryInMs,omitempty"`
	WaitingForInput bool  `json:"waitingForInput,omitempty"` // a guess
}

// LogPage says which lines a log shows.
type LogPage struct {
	Offset     int  `json:"offset"` // number of the first line, from 0
	Lines      int  `json:"lines"`
	TotalLines int  `json:"totalLines"`
	Default    bool `json:"default,omitempty"` // the last lines, since the request named none
}

// WaitEnd says what ended a wait.
type WaitEnd struct {
	Met   string `json:"met"`             // "exit", "output" or "pattern"; "" if its time was up
	Match string `json:"match,omitempty"` // the text that the pattern matched
}

// Stream says where a session can be attached to.
type Stream struct {
	Path string `json:"path"` // of the API
}

// Failed reports whether the action failed.
func (r ProcessResult) Failed() bool { return r.Error != "" }
