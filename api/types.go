package api

import (
	"encoding/json"

	"github.com/corral-exec/corral/config"
)

// Signal is the body of signal: a name or a number, as corral.ParseSignal
// reads it.
type Signal struct {
	Signal string `json:"signal"`
}

// Written is the answer of stdin. After an error the status is the error's, and N is
// the exact number of bytes handed over before it.
type Written struct {
	N     int64      `json:"written"`
	Error *ErrorBody `json:"error,omitempty"`
}

// Sessions is the answer of the list.
type Sessions[Status any] struct {
	Sessions []Status `json:"sessions"`
}

// Tool describes a tool to a model. The schemas are JSON Schemas.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"` // of Called.Result
}

// Called is the answer of tools/NAME: a result in each of its renderings.
type Called struct {
	Result any    `json:"result"`
	Text   string `json:"text"`   // for a model
	Failed bool   `json:"failed"` // the call did not do its work
}

// Explain is the body of explain: the command, and the wanted parts of the answer
// besides the decision.
type Explain struct {
	Start
	// Environment: add the origin of each variable and of each entry of PATH.
	Environment bool `json:"environment,omitempty"`
	// Values: add the values of variables, except those that look like credentials.
	Values bool `json:"values,omitempty"`
}

// Said is the body of commands: a message to an agent.
type Said struct {
	Text string `json:"text"`
	// Sender is the author. Without it the author is the caller: the operator on the
	// Unix socket, and unknown over TCP.
	Sender *config.Sender `json:"sender,omitempty"`
	// Bot is the agent's own name in a group, as in /approve@NAME.
	Bot string `json:"bot,omitempty"`
}

// Reply is the answer of commands.
type Reply struct {
	Text string `json:"text"` // to show
}

// Tools is the answer of tools.
type Tools struct {
	Tools []Tool `json:"tools"`
}

// Health is the answer of health and ready.
type Health struct {
	Status string `json:"status"` // "ok", "starting" or "draining"
}

// Missed is the data of EventMissed.
type Missed struct {
	Next int64 `json:"next"` // the sequence number after which events go on
}

// Control is a text message of attach, in either direction.
type Control struct {
	Type string `json:"type"`

	Rows   uint16 `json:"rows,omitempty"`   // of resize
	Cols   uint16 `json:"cols,omitempty"`   //
	Signal string `json:"signal,omitempty"` // of signal

	Status json.RawMessage `json:"status,omitempty"` // of exit: a session.Status
	Error  *ErrorBody      `json:"error,omitempty"`  // of error
}

// Types of Control. A client sends resize, signal and eof. A server sends exit as its
// last message, and error, which does not end the connection.
const (
	ControlResize = "resize"
	ControlSignal = "signal"
	ControlEOF    = "eof"
	ControlExit   = "exit"
	ControlError  = "error"
)
