package api

import "encoding/json"

// Signal is the body of signal: a name or a number, as corral.ParseSignal
// reads it.
type Signal struct {
	Signal string `json:"signal"`
}

// Written is the answer of stdin. With an error the status is the error's, and
// N is exactly how much was handed over before it.
type Written struct {
	N     int64      `json:"written"`
	Error *ErrorBody `json:"error,omitempty"`
}

// Sessions is the answer of the list.
type Sessions[Status any] struct {
	Sessions []Status `json:"sessions"`
}

// Sandboxes is the answer of sandboxes.
type Sandboxes struct {
	Sandboxes any `json:"sandboxes"`
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // JSON Schema
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

// Types of Control. A client sends resize, signal and eof; a server exit, last
// of all, and error, which does not end the connection.
const (
	ControlResize = "resize"
	ControlSignal = "signal"
	ControlEOF    = "eof"
	ControlExit   = "exit"
	ControlError  = "error"
)
