package images

import (
	"bytes"
	"strings"
)

// A lineWriter reports output by lines and remembers why it ended.
type lineWriter struct {
	report  func(string)
	partial []byte
	last    string
	failure string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		i := bytes.IndexAny(w.partial, "\r\n")
		if i < 0 && len(w.partial) > 8<<10 {
			i = len(w.partial) - 1
		}
		if i < 0 {
			return len(p), nil
		}
		w.line(string(w.partial[:i]))
		w.partial = w.partial[i+1:]
	}
}

func (w *lineWriter) line(s string) {
	s = clean(s, maxText)
	if s == "" {
		return
	}
	w.last = s
	// mmdebstrap and apt mark errors the same way; the first is the cause.
	for _, mark := range []string{"E: ", "dpkg: error "} {
		if text, ok := strings.CutPrefix(s, mark); ok && w.failure == "" {
			w.failure = text
		}
	}
	w.report(strings.TrimPrefix(s, "I: "))
}

func (w *lineWriter) reason() string {
	w.line(string(w.partial))
	w.partial = nil
	switch {
	case w.failure != "":
		return w.failure
	case w.last != "":
		return w.last
	}
	return "the script says nothing"
}
