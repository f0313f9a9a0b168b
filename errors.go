package corral

import (
	"errors"
	"fmt"
	"strconv"
)

// The errors of the contract. They differ in what the caller can do next. Test with
// errors.Is.
var (
	// ErrInvalid: the request is malformed. Correct it.
	ErrInvalid = errors.New("invalid request")
	// ErrDenied: the request is valid but refused. A retry is pointless until the
	// policy or the configuration changes.
	ErrDenied = errors.New("denied")
	// ErrApproval: the command has to be approved first. Nothing ran.
	ErrApproval = errors.New("approval pending")
	// ErrUnavailable: the place cannot be used now. Nothing ran, so a retry is safe.
	ErrUnavailable = errors.New("unavailable")
	// ErrLost: Corral cannot know whether, or how, the command ended. A retry may run
	// it twice.
	ErrLost = errors.New("lost")

	// ErrNotFound: no process with that ID is known.
	ErrNotFound = errors.New("no such process")
	// ErrConflict: that ID belongs to a different command.
	ErrConflict = errors.New("id already used by another command")
	// ErrDir: the working directory does not exist, is not a directory, or
	// may not be entered. Nothing ran.
	ErrDir = errors.New("bad working directory")
	// ErrRunning: the process has not ended.
	ErrRunning = errors.New("process is running")
	// ErrEnded: the process has ended.
	ErrEnded = errors.New("process has ended")
	// ErrStdinClosed: the process's standard input is closed, or it was
	// started without one.
	ErrStdinClosed = errors.New("standard input is closed")
	// ErrNotListening: nothing listens on that port of the sandbox.
	ErrNotListening = errors.New("nothing listens on the port")
)

// An Error is an error of the contract with what to do about it.
type Error struct {
	Kind error  // one of the Err variables of this package
	Text string // what failed, and on what; one line
	Hint string // what to do; one line, may be empty
	Err  error  // the cause, whose text is part of Text; may be nil
}

func (e *Error) Error() string { return e.Text }

// Unwrap makes errors.Is find both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err != nil {
		return []error{e.Kind, e.Err}
	}
	return []error{e.Kind}
}

// Errorf makes an Error of a kind, with a hint. The format may hold one %w for
// the cause.
func Errorf(kind error, hint, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Text: err.Error(), Hint: hint, Err: errors.Unwrap(err)}
}

// Hint returns the outermost hint in err's chain that is not empty: it says what to do
// about err.
func Hint(err error) string {
	switch e := err.(type) { //nolint:errorlint // this is the walk through the chain
	case *Error:
		if e.Hint != "" {
			return e.Hint
		}
		return Hint(e.Err)
	case interface{ Unwrap() error }:
		return Hint(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if h := Hint(inner); h != "" {
				return h
			}
		}
	}
	return ""
}

func itoa(n int) string { return strconv.Itoa(n) }
