package images

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/corral-exec/corral/internal/lazy"
)

// The engine answers a pull or an import with status 200 and a JSON object a
// line. The last may say that it failed after all. What it relays
// comes from a registry, so nothing in it is trusted: lines are bounded, texts
// are cleaned, and numbers are brought into range.

const (
	maxLine = 1 << 20 // bytes of one object; real ones have a few hundred
	maxText = 500     // characters of one text
	maxItem = 80
)

type message struct {
	Status         string
	Item           string
	Current, Total int64
}

// A streamError is the engine's word that what was asked for failed.
type streamError struct {
	code int // as an HTTP status; 0 when not told
	text string
}

func (e *streamError) Error() string { return e.text }

// readStream calls each for every message until the stream ends. The error is
// a *streamError if the engine said so.
func readStream(r io.Reader, each func(message)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		var m struct {
			Status   string `json:"status"`
			ID       string `json:"id"`
			Progress struct {
				Current int64 `json:"current"`
				Total   int64 `json:"total"`
			} `json:"progressDetail"`
			Error  string `json:"error"`
			Detail *struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"errorDetail"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("the engine sent something else than progress: %w", err)
		}
		if m.Error != "" || m.Detail != nil {
			failure := streamError{text: clean(m.Error, maxText)}
			if m.Detail != nil {
				failure.code = m.Detail.Code
				if text := clean(m.Detail.Message, maxText); text != "" {
					failure.text = text
				}
			}
			failure.text = cmp.Or(failure.text, "the engine does not say why")
			return &failure
		}
		total := max(m.Progress.Total, 0)
		current := max(m.Progress.Current, 0)
		if total > 0 {
			current = min(current, total)
		}
		each(message{Status: clean(m.Status, maxText), Item: clean(m.ID, maxItem), Current: current, Total: total})
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("the engine sent a line of more than %d bytes", maxLine)
	} else if err != nil {
		return fmt.Errorf("the engine's answer broke off: %w", err)
	}
	return nil
}

// userinfo is the user and password of a URL in running text.
var userinfo = lazy.Regexp(`://[^/\s@"]*@`)

// clean makes one printable line of at most limit characters of s, without the
// passwords of URLs: it goes to terminals and logs.
func clean(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	s = userinfo().ReplaceAllString(s, "://***@")
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > limit {
		s = strings.TrimSpace(string(runes[:limit-1])) + "…"
	}
	return s
}
