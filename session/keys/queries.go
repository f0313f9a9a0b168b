package keys

import (
	"bytes"
	"strings"
)

// CursorReport answers a request for the cursor's position: row 1, column 1. Without a
// drawn screen there is no real position, but a program may wait for an answer.
const CursorReport = "\x1b[1;1R"

// Requests for the cursor's position: DSR, and its private form DECXCPR.
const (
	cursorRequest        = "\x1b[6n"
	cursorRequestPrivate = "\x1b[?6n"
)

// CursorQueries removes requests for the cursor's position from a program's output,
// which may be cut anywhere. It holds back at most four bytes. The zero value is ready.
// It is not for concurrent use.
type CursorQueries struct {
	held []byte // the beginning of a request
}

// Strip returns the output without requests, and the number of requests. Answer each
// with a CursorReport. rest may share memory with p.
func (q *CursorQueries) Strip(p []byte) (rest []byte, requests int) {
	if len(q.held) == 0 && bytes.IndexByte(p, esc) < 0 {
		return p, 0
	}
	rest = make([]byte, 0, len(q.held)+len(p))
	for len(p) > 0 {
		if len(q.held) == 0 {
			text := p
			if i := bytes.IndexByte(p, esc); i >= 0 {
				text = p[:i]
			}
			rest = append(rest, text...)
			if p = p[len(text):]; len(p) == 0 {
				break
			}
		} else if p[0] == esc {
			rest = append(rest, q.Flush()...)
		}
		q.held = append(q.held, p[0])
		p = p[1:]
		switch held := string(q.held); {
		case held == cursorRequest || held == cursorRequestPrivate:
			requests++
			q.held = q.held[:0]
		case !strings.HasPrefix(cursorRequest, held) && !strings.HasPrefix(cursorRequestPrivate, held):
			rest = append(rest, q.Flush()...)
		}
	}
	return rest, requests
}

// Flush returns the bytes that are held back; they are no request. Call it when the
// output has ended. The bytes are valid until the next Strip.
func (q *CursorQueries) Flush() []byte {
	held := q.held
	q.held = q.held[:0]
	return held
}
