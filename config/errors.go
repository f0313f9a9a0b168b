package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/json5"
)

// A Mistake is something in the file that is not right.
type Mistake struct {
	Line   int    `json:"line"`          // from 1
	Column int    `json:"column"`        // in characters, from 1
	Offset int    `json:"offset"`        // in bytes, from 0
	Key    string `json:"key,omitempty"` // such as agents.list[0].tools.exec.node; empty: the file cannot be parsed
	Text   string `json:"text"`          // one line
}

func (m Mistake) String() string {
	at := fmt.Sprintf("%d:%d: ", m.Line, m.Column)
	if m.Key != "" {
		at += m.Key + ": "
	}
	return at + m.Text
}

// An Error has all mistakes of a file, in their order; there is at least one.
// It is an ErrInvalid.
type Error struct {
	File     string
	Mistakes []Mistake
}

// Error is a line for each mistake: "corral.json5:12:5: tools.exec.ask: …".
func (e *Error) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = e.File + ":" + m.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap says that the input is at fault.
func (e *Error) Unwrap() error { return corral.ErrInvalid }

// maxMistakes bounds what is reported: a file of another kind has no end of
// them.
const maxMistakes = 50

// mistakes collects those of a document.
type mistakes struct {
	doc  *json5.Document
	list []Mistake
	at   []int // the byte offset of each
	form []int // those of texts that are of another form than asked for, and no worse
}

// add notes a mistake at the byte offset.
func (m *mistakes) add(offset int, at json5.Path, format string, args ...any) {
	m.at = append(m.at, offset)
	p := m.doc.Position(offset)
	m.list = append(m.list, Mistake{Line: p.Line, Column: p.Column, Offset: offset, Key: at.String(), Text: fmt.Sprintf(format, args...)})
}

// in reports whether there is one in a value.
func (m *mistakes) in(v *json5.Value) bool {
	return slices.ContainsFunc(m.at, func(offset int) bool { return v.Start <= offset && offset < v.End })
}
