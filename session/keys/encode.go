package keys

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

const (
	// MaxBytes bounds the result of one call of Encode or Paste.
	MaxBytes = 1 << 20
	// MaxTokens bounds the elements of Hex and Keys together.
	MaxTokens = 10_000

	// Submit is the byte of the Enter key: CR. In its normal mode the terminal driver
	// turns it into a newline for the program.
	Submit = "\r"
)

// A Request lists what to type, in the order of the fields.
type Request struct {
	// Literal is typed unchanged. A newline in it is LF, not the Enter key; a program
	// in raw mode can tell them apart.
	Literal string `json:"literal,omitempty"`
	// Hex holds bytes of one or two hexadecimal digits, as "1b" or "0x1b".
	// An element may be a list, separated by white space or commas.
	Hex []string `json:"hex,omitempty"`
	// Keys holds names of keys, characters and text; see the package's doc.
	Keys []string `json:"keys,omitempty"`
}

// A CursorMode decides which bytes the cursor keys send (DECCKM).
type CursorMode uint8

const (
	// CursorNormal is the mode that a terminal starts in: ESC [ A.
	CursorNormal CursorMode = iota
	// CursorApplication is what full-screen programs often set: ESC O A.
	CursorApplication
	// CursorUnknown is the mode before a program has set one. Encode refuses keys that
	// depend on it. Pass CursorNormal to assume the mode that a terminal starts in.
	CursorUnknown
)

func (m CursorMode) String() string {
	switch m {
	case CursorNormal:
		return "normal"
	case CursorApplication:
		return "application"
	}
	return "unknown"
}

// Options say how to encode. The zero value is for a terminal that was just started,
// and gives warnings in place of errors.
type Options struct {
	Cursor CursorMode
	Strict bool // warnings become errors
}

// A Result is what to write to the terminal.
type Result struct {
	Data     []byte   // empty if the request asks for nothing
	Warnings []string // sentences about keys that could not be typed as asked
}

// maxProblems bounds the warnings, and the problems in an error.
const maxProblems = 10

// Encode returns the bytes of a request. It sends nothing, so after an error nothing
// was typed:
//
//   - corral.ErrInvalid: the request exceeds MaxBytes or MaxTokens; or, with
//     Options.Strict, it has tokens that cannot be typed as asked. The error names each
//     with its position from 1 and a suggestion.
//   - corral.ErrUnavailable: a key depends on a mode that is CursorUnknown.
//     Try again when the program has drawn its screen.
func Encode(r Request, o Options) (Result, error) {
	if n := len(r.Hex) + len(r.Keys); n > MaxTokens {
		return Result{}, corral.Errorf(corral.ErrInvalid, splitHint, "cannot type %d keys and bytes: more than %d", n, MaxTokens)
	}
	e := encoder{options: o}
	if len(r.Literal) > MaxBytes {
		return Result{}, tooLong()
	}
	e.data = append(e.data, r.Literal...)
	for i, list := range r.Hex {
		if err := e.hex(i+1, list); err != nil {
			return Result{}, err
		}
	}
	for i, token := range r.Keys {
		if err := e.token(i+1, token); err != nil {
			return Result{}, err
		}
		if len(e.data) > MaxBytes {
			return Result{}, tooLong()
		}
	}
	if err := e.strict(); err != nil {
		return Result{}, err
	}
	return Result{Data: e.data, Warnings: e.warnings()}, nil
}

const splitHint = "send it in several calls"

func tooLong() error {
	return corral.Errorf(corral.ErrInvalid, splitHint, "cannot type more than %d bytes at once", MaxBytes)
}

type encoder struct {
	options  Options
	data     []byte
	problems []problem // at most maxProblems
	more     int       // problems beyond maxProblems
}

// A problem is something that cannot be typed as asked.
type problem struct {
	subject string // `key 2 ("C-foo")`
	fault   string // "is not the name of a key"
	instead string // "it was typed as text"
	advice  string // a sentence, or ""
}

func (e *encoder) report(p problem) {
	if len(e.problems) == maxProblems {
		e.more++
		return
	}
	e.problems = append(e.problems, p)
}

func (e *encoder) warnings() []string {
	var list []string
	for _, p := range e.problems {
		s := strings.ToUpper(p.subject[:1]) + p.subject[1:] + " " + p.fault + "; " + p.instead + "."
		if p.advice != "" {
			s += " " + p.advice
		}
		list = append(list, s)
	}
	if e.more > 0 {
		list = append(list, fmt.Sprintf("%d more could not be typed as asked.", e.more))
	}
	return list
}

func (e *encoder) strict() error {
	if !e.options.Strict || len(e.problems) == 0 {
		return nil
	}
	var faults, hints []string
	for _, p := range e.problems {
		faults = append(faults, p.subject+" "+p.fault)
		if p.advice != "" {
			hints = append(hints, p.advice)
		}
	}
	if e.more > 0 {
		faults = append(faults, fmt.Sprintf("and %d more", e.more))
	}
	if len(hints) == 0 {
		hints = []string{"text to be typed as it stands is for literal"}
	}
	return corral.Errorf(corral.ErrInvalid, hints[0], "cannot type as asked: %s", strings.Join(faults, "; "))
}

// subject names an element of a request.
func subject(kind string, position int, token string) string {
	const shown = 40
	if len(token) > shown {
		token = token[:shown] + "…"
	}
	return fmt.Sprintf("%s %d (%q)", kind, position, token)
}

func (e *encoder) hex(position int, list string) error {
	for digits := range strings.FieldsFuncSeq(list, func(r rune) bool { return strings.ContainsRune(" \t\r\n,", r) }) {
		bare := digits
		if len(bare) > 2 && bare[0] == '0' && bare[1]|0x20 == 'x' {
			bare = bare[2:]
		}
		b, err := strconv.ParseUint(bare, 16, 8)
		if err != nil || len(bare) > 2 {
			e.report(problem{subject("hex", position, digits), "is not a byte in hexadecimal", "it was left out", "Write a byte with one or two digits, as 1b or 0x1b."})
			continue
		}
		if e.data = append(e.data, byte(b)); len(e.data) > MaxBytes {
			return tooLong()
		}
	}
	return nil
}
