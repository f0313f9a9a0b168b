package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

// A StreamEvent is one event of a session's output, as NDJSON or as server-sent events.
// To get the rest after an event, ask with its Next as the offset.
//
// Every stream ends with an event that is Last; a stream without one was cut.
type StreamEvent struct {
	Type   string `json:"type"`
	Offset int64  `json:"offset"` // in the log: where the event begins
	Next   int64  `json:"next"`   // where the rest begins

	// Text is the output of stdout and stderr, if it is UTF-8. Otherwise Binary has
	// it, in base64.
	Text   string `json:"text,omitempty"`
	Binary []byte `json:"binary,omitempty"`

	// ExitStatus is set in exit. Its fields are null if it is unknown how the command
	// ended.
	*corral.ExitStatus
	// Session is a session.Status, set in started and exit.
	Session json.RawMessage `json:"session,omitempty"`
}

// Types of a StreamEvent.
const (
	StreamStarted = "started" // the command of a call that starts one; the first event
	StreamStdout  = "stdout"
	StreamStderr  = "stderr"
	StreamGap     = "gap"   // the output from Offset to Next is no longer kept
	StreamPing    = "ping"  // nothing has happened for a while. In server-sent events it is a comment
	StreamPaused  = "pause" // no more in this answer: ask again
	StreamExit    = "exit"  // the session has ended
)

// MaxEventOutput bounds the output of an event, in bytes.
const MaxEventOutput = 64 << 10

// OutputEvent returns the event for output, which must not be empty.
func OutputEvent(c corral.Chunk) StreamEvent {
	e := StreamEvent{Type: StreamStdout, Offset: c.Offset, Next: c.Next()}
	if c.Stream == corral.Stderr {
		e.Type = StreamStderr
	}
	if utf8.Valid(c.Data) {
		e.Text = string(c.Data)
	} else {
		e.Binary = c.Data
	}
	return e
}

// Last reports whether nothing follows the event.
func (e StreamEvent) Last() bool { return e.Type == StreamPaused || e.Type == StreamExit }

// Output is the output of stdout and stderr.
func (e StreamEvent) Output() []byte {
	if e.Text != "" {
		return []byte(e.Text)
	}
	return e.Binary
}

// AppendLine appends the event as a line of NDJSON.
func (e StreamEvent) AppendLine(to []byte) ([]byte, error) {
	buf := bytes.NewBuffer(to)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // escaping triples the length, and no browser shows it
	if err := enc.Encode(e); err != nil {
		return to, fmt.Errorf("%w: cannot encode an event: %w", ErrInternal, err)
	}
	return buf.Bytes(), nil
}

// AppendSSE appends the event as a server-sent event. Its id is Next.
func (e StreamEvent) AppendSSE(to []byte) ([]byte, error) {
	if e.Type == StreamPing {
		return AppendComment(to, "nothing new", e.Next), nil
	}
	begin := len(to)
	to, err := e.AppendLine(AppendEventHead(to, e.Next, e.Type))
	if err != nil {
		return to[:begin], err
	}
	return append(to, '\n'), nil
}

// AppendEventHead appends a server-sent event up to its data. Append the data in one
// line, and then an empty line.
func AppendEventHead(to []byte, id int64, kind string) []byte {
	return fmt.Appendf(to, "id: %d\nevent: %s\ndata: ", id, kind)
}

// AppendComment appends a line that clients do not show, with the id to resume from.
func AppendComment(to []byte, text string, id int64) []byte {
	return fmt.Appendf(to, ": %s\nid: %d\n\n", text, id)
}

// ParseStreamEvent reads a line of NDJSON, or the data of a server-sent event.
func ParseStreamEvent(line []byte) (StreamEvent, error) {
	var e StreamEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("%w: an event that is not understood: %w", ErrInternal, err)
	}
	if e.Offset < 0 || e.Next < e.Offset || e.Next > maxOffset {
		return e, fmt.Errorf("%w: an event from %d to %d", ErrInternal, e.Offset, e.Next)
	}
	return e, nil
}

// ParseOffset reads an offset, or the id of a server-sent event.
func ParseOffset(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && n <= maxOffset
}
