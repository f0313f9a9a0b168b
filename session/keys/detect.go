package keys

import "bytes"

const (
	esc = 0x1b
	can = 0x18 // cancels a sequence
	sub = 0x1a // likewise
)

// A Detector reads a program's output as a terminal does. It knows two of the modes
// that a program can switch on: application cursor keys (DECCKM, ESC [ ? 1 h) and
// bracketed paste (ESC [ ? 2004 h). Both can be set along with others in one sequence,
// a full reset (RIS, ESC c) resets both, and a soft reset (DECSTR, ESC [ ! p) the
// first.
//
// It is an io.Writer that never fails. Output may be cut anywhere, and costs no memory.
// The Detector ignores 8-bit CSI, since in UTF-8 that byte is a part of other
// characters. It does not follow modes that are saved and restored (ESC [ ? 1 s).
//
// The zero Detector is ready. It is not for concurrent use.
type Detector struct {
	cursor CursorMode
	seen   bool // the cursor mode was set or reset
	paste  bool

	state        detectorState
	begun        bool // any character of the sequence was read
	private      byte // the first character, if it is one of < = > ?
	intermediate byte
	number       int // the parameter being read; -1 if it is no number
	modes        modeSet
}

type detectorState uint8

const (
	inText   detectorState = iota
	inEscape               // after ESC
	inCSI                  // after ESC [
)

// modeSet holds the modes that the sequence has named so far.
type modeSet uint8

const (
	cursorKeys modeSet = 1 << iota
	bracketedPaste
)

// Cursor is the cursor mode: CursorUnknown until a program sets or resets it.
func (d *Detector) Cursor() CursorMode {
	if !d.seen {
		return CursorUnknown
	}
	return d.cursor
}

// BracketedPaste reports whether the program has asked for pasted text to be
// in brackets.
func (d *Detector) BracketedPaste() bool { return d.paste }

// Write reads the next output. It returns len(p) and nil.
func (d *Detector) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if d.state == inText {
			i := bytes.IndexByte(p, esc)
			if i < 0 {
				break
			}
			p = p[i:]
		}
		d.next(p[0])
		p = p[1:]
	}
	return n, nil
}

func (d *Detector) next(c byte) {
	switch {
	case c == esc:
		d.state = inEscape
		return
	case c == can || c == sub:
		d.state = inText
		return
	case c < ' ' || c == 0x7f: // a terminal obeys or ignores it in the middle of a sequence
		return
	}
	switch d.state {
	case inEscape: // of other sequences the rest is as good as text
		d.state = inText
		switch c {
		case '[':
			d.state = inCSI
			d.begun, d.private, d.intermediate, d.number, d.modes = false, 0, 0, 0, 0
		case 'c':
			d.setCursor(CursorNormal)
			d.paste = false
		}
	case inCSI:
		d.parameter(c)
	}
}

func (d *Detector) parameter(c byte) {
	const largest = 1 << 16 // more than the number of any mode
	first := !d.begun
	d.begun = true
	switch {
	case '0' <= c && c <= '9':
		if d.number >= 0 {
			d.number = min(d.number*10+int(c-'0'), largest)
		}
	case c == ';':
		d.endParameter()
	case c == ':':
		d.number = -1
	case c < '0':
		d.intermediate = c
	case c < '@' && first:
		d.private = c
	default:
		d.endParameter()
		d.obey(c)
		d.state = inText
	}
}

func (d *Detector) endParameter() {
	switch d.number {
	case 1:
		d.modes |= cursorKeys
	case 2004:
		d.modes |= bracketedPaste
	}
	d.number = 0
}

func (d *Detector) obey(final byte) {
	switch {
	case d.private == '?' && d.intermediate == 0 && (final == 'h' || final == 'l'):
		on := final == 'h'
		if d.modes&cursorKeys != 0 {
			d.setCursor(CursorNormal)
			if on {
				d.setCursor(CursorApplication)
			}
		}
		if d.modes&bracketedPaste != 0 {
			d.paste = on
		}
	case d.private == 0 && d.intermediate == '!' && final == 'p':
		d.setCursor(CursorNormal)
	}
}

func (d *Detector) setCursor(m CursorMode) { d.cursor, d.seen = m, true }
