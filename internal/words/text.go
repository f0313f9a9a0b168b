package words

import (
	"strings"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

// A Decoder makes text of output that arrives in chunks. If a chunk cuts a
// character in two, it holds the first part back until the rest arrives, for each
// stream separately. It replaces every byte that is not UTF-8 by U+FFFD. The zero
// Decoder is ready. It is not for concurrent use.
type Decoder struct {
	held map[corral.Stream]string // at most three bytes each
}

// Decode returns the text of p, after the bytes of s that were held back before.
func (d *Decoder) Decode(s corral.Stream, p []byte) string {
	text := append([]byte(d.held[s]), p...)
	whole := WholeRunes(text)
	if whole == len(text) {
		delete(d.held, s)
	} else {
		if d.held == nil {
			d.held = make(map[corral.Stream]string)
		}
		d.held[s] = string(text[whole:])
	}
	return validText(string(text[:whole]))
}

// Flush returns the bytes of s that are held back; they are no whole character. Call it at
// the end of the stream and at a gap of the log.
func (d *Decoder) Flush(s corral.Stream) string {
	text := d.held[s]
	delete(d.held, s)
	return validText(text)
}

// validText replaces each invalid byte. strings.ToValidUTF8 makes one replacement for a
// run of bytes, so its result would depend on how the run was cut into chunks.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// A Stripper removes terminal control from text that arrives in pieces: whole escape
// sequences (CSI, OSC, DCS and the other kinds of ECMA-48, with 7 or 8 bits) and every
// control character but tab, line feed and carriage return. The result is safe to show
// on a terminal. It keeps only its state within a sequence. So a sequence may be cut
// anywhere, and a hostile one that never ends costs no memory; after maxSequence
// characters it counts as text. The zero Stripper is ready. It is not for concurrent
// use. Its input is text from a Decoder.
type Stripper struct {
	state  ansiState
	length int // characters of the sequence so far
}

// maxSequence is large enough for the sequences of real programs (pictures and clipboards
// in an OSC or DCS), and small enough that an unfinished sequence does not hide the rest of
// a log.
const maxSequence = 64 << 10

type ansiState uint8

const (
	ansiText   ansiState = iota
	ansiEscape           // after ESC, and its intermediate characters
	ansiCSI              // after CSI: parameters, until a final character
	ansiOSC              // after OSC: until ST or BEL
	ansiString           // after DCS, SOS, PM or APC: until ST
)

// Characters of ECMA-48 that begin, end or abort a sequence.
const (
	charBEL = 0x07
	charCAN = 0x18
	charSUB = 0x1a
	charESC = 0x1b
	charDEL = 0x7f
	charDCS = 0x90
	charSOS = 0x98
	charCSI = 0x9b
	charST  = 0x9c
	charOSC = 0x9d
	charPM  = 0x9e
	charAPC = 0x9f
)

// StripANSI removes terminal control from a whole text; see Stripper.
func StripANSI(text string) string {
	var a Stripper
	return a.Strip(text)
}

// Strip returns the next piece of text without terminal control.
func (a *Stripper) Strip(text string) string {
	text = validText(text)
	if a.state == ansiText && !strings.ContainsFunc(text, isControl) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		if a.shows(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shows reads the next character, and reports whether it is text.
func (a *Stripper) shows(r rune) bool {
	if a.state != ansiText {
		if a.length++; a.length > maxSequence {
			a.state = ansiText
		}
	}
	switch r { // these mean the same in every state
	case charESC:
		return a.enter(ansiEscape)
	case charCSI:
		return a.enter(ansiCSI)
	case charOSC:
		return a.enter(ansiOSC)
	case charDCS, charSOS, charPM, charAPC:
		return a.enter(ansiString)
	case charCAN, charSUB, charST:
		return a.enter(ansiText)
	}
	switch a.state {
	case ansiOSC, ansiString:
		if r == charBEL && a.state == ansiOSC {
			a.state = ansiText
		}
		return false
	case ansiText:
		return !isControl(r)
	}
	// A terminal obeys a control character within a short sequence as if it came
	// before the sequence.
	if r < ' ' {
		return !isControl(r)
	}
	if a.state == ansiEscape {
		switch r {
		case '[':
			return a.enter(ansiCSI)
		case ']':
			return a.enter(ansiOSC)
		case 'P', 'X', '^', '_':
			return a.enter(ansiString)
		}
	}
	switch {
	case r < '0', r < '@' && a.state == ansiCSI, r == charDEL: // intermediate, parameter, ignored
		return false
	case r < utf8.RuneSelf: // final
		a.state = ansiText
		return false
	}
	a.state = ansiText // no sequence has such a character
	return !isControl(r)
}

func (a *Stripper) enter(s ansiState) bool {
	a.state, a.length = s, 0
	return false
}

func isControl(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || charDEL <= r && r < 0xa0
}

// WholeRunes is the length of p without an incomplete character at its end. Bytes that are
// not UTF-8 count as characters.
func WholeRunes(p []byte) int {
	for i := len(p) - 1; i >= 0 && i >= len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if utf8.FullRune(p[i:]) {
				return len(p)
			}
			return i
		}
	}
	return len(p)
}
