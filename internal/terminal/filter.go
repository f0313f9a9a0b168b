package terminal

import (
	"bytes"
	"unicode/utf8"
)

// A Filter removes the parts of a program's output with effects beyond the screen of
// the terminal that shows it: on the clipboard, the title or the printer, and queries
// that the terminal answers as if the answer had been typed.
//
// It only passes known sequences on, and only whole ones, so that a terminal never
// waits for the rest of one. It is for terminals that read UTF-8.
//
// A Filter is for the output of one program. Output may be cut anywhere. The data kept
// between two calls is bounded. The zero value is for output to look at: it passes
// colours, movements of the cursor and erasing on.
type Filter struct {
	// Screen also passes on the sequences for a program that uses the whole terminal:
	// modes, character sets, scrolling regions.
	Screen bool
	// Answers also passes on queries that a terminal answers, because the answers go to
	// the program.
	Answers bool

	state state
	held  []byte // the sequence so far
	rune  []byte // the beginning of a character
	size  int    // of the string so far, which is dropped
}

type state byte

const (
	text   state = iota
	escape       // after ESC, and intermediates
	csi          // after ESC [
	str          // in a string: OSC, DCS, APC, PM, SOS
)

const (
	maxSequence = 256      // bytes of a sequence that is passed on
	maxString   = 64 << 10 // bytes of a string that are dropped at most
)

// Filter returns the next output to show. It may be shorter or, with earlier held-back
// bytes, longer.
func (f *Filter) Filter(p []byte) []byte {
	out := make([]byte, 0, len(p)+len(f.held)+len(f.rune))
	if len(f.rune) > 0 {
		p = append(f.rune, p...)
		f.rune = nil
	}
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 && !utf8.FullRune(p) {
			f.rune = bytes.Clone(p)
			return out
		}
		piece := p[:n]
		p = p[n:]
		if r == utf8.RuneError && n == 1 {
			r = rune(piece[0]) // C1, or not UTF-8
			if r > 0x9f {
				r = utf8.RuneError
			}
		}
		out = f.one(out, r, piece)
	}
	return out
}

// one handles one character; piece has its bytes.
func (f *Filter) one(out []byte, r rune, piece []byte) []byte {
	switch {
	case r == 0x1b:
		f.begin(escape, "\x1b")
		return out
	case r == 0x18 || r == 0x1a: // they cancel a sequence
		f.end()
		return out
	case r >= 0x80 && r <= 0x9f:
		f.c1(r)
		return out
	}
	switch f.state {
	case text:
		return f.plain(out, r, piece)
	case escape:
		return f.escaped(out, r)
	case csi:
		return f.control(out, r, piece)
	}
	f.size += len(piece)
	switch {
	case r == '\a':
		f.end()
	case r == '\n' && !f.Screen, f.size > maxString:
		f.end() // a string without an end must not hide all later output
		return f.plain(out, r, piece)
	}
	return out
}

func (f *Filter) begin(s state, sequence string) {
	f.state, f.held, f.size = s, append(f.held[:0], sequence...), 0
}

func (f *Filter) end() { f.begin(text, "") }

// c1 handles the 8-bit forms of two bytes that begin with ESC.
func (f *Filter) c1(r rune) {
	switch r {
	case 0x9b:
		f.begin(csi, "\x1b[")
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		f.begin(str, "")
	default:
		f.end()
	}
}

func (f *Filter) plain(out []byte, r rune, piece []byte) []byte {
	switch {
	case r == 0x05 && !f.Answers: // a terminal answers it
		return out
	case (r == 0x0e || r == 0x0f) && !f.Screen: // they change the character set
		return out
	}
	return append(out, piece...)
}

// escaped handles a character after ESC.
func (f *Filter) escaped(out []byte, r rune) []byte {
	only := len(f.held) == 1
	switch {
	case only && r == '[':
		f.begin(csi, "\x1b[")
		return out
	case only && (r == ']' || r == 'P' || r == '^' || r == '_' || r == 'X'):
		f.begin(str, "")
		return out
	case r >= ' ' && r <= '/' && len(f.held) < maxSequence:
		f.held = append(f.held, byte(r))
		return out
	case r < ' ':
		f.end()
		return f.plain(out, r, []byte{byte(r)})
	}
	if r < 0x7f && f.mayEscape(r) {
		out = append(append(out, f.held...), byte(r))
	}
	f.end()
	return out
}

// mayEscape reports whether an escape sequence is known to affect only the screen.
func (f *Filter) mayEscape(final rune) bool {
	if len(f.held) > 1 {
		// Character sets, and the lines of double size; not ESC %, which leaves UTF-8.
		return f.Screen && len(f.held) == 2 && bytes.IndexByte([]byte("()*+-./#"), f.held[1]) >= 0
	}
	switch final {
	case '7', '8', 'D', 'E', 'M':
		return true
	case '=', '>', 'H', 'c', 'N', 'O', 'n', 'o', '|', '}', '~':
		return f.Screen
	case 'Z':
		return f.Answers
	}
	return false
}

// control handles a character after ESC [.
func (f *Filter) control(out []byte, r rune, piece []byte) []byte {
	switch {
	case r >= ' ' && r <= '?':
		if f.held = append(f.held, byte(r)); len(f.held) > maxSequence {
			f.held = f.held[:maxSequence] // too long: dropped at its end
		}
		return out
	case r < '@' || r > '~':
		f.end()
		return f.plain(out, r, piece)
	}
	if len(f.held) < maxSequence && f.mayControl(byte(r)) {
		out = append(append(out, f.held...), byte(r))
	}
	f.end()
	return out
}

// mayControl reports whether the held sequence, with its last byte, affects only the
// screen.
func (f *Filter) mayControl(final byte) bool {
	params := f.held[2:]
	private, middle := byte(0), byte(0)
	if len(params) > 0 && params[0] >= '<' && params[0] <= '?' {
		private = params[0]
		params = params[1:]
	}
	for i, b := range params {
		if b >= ' ' && b <= '/' {
			if i < len(params)-1 {
				return false
			}
			middle = b
		} else if b >= '<' {
			return false
		}
	}
	has := func(set string) bool { return bytes.IndexByte([]byte(set), final) >= 0 }
	switch {
	case private == 0 && middle == 0:
		// Cursor, erasing, inserting, colours; then modes, margins and tabs; then
		// queries. Not: t (windows, titles), i (the printer), q (lights).
		return has("@ABCDEFGHIJKLMPSTXZ`abdefm") || f.Screen && has("ghlrsu") || f.Answers && has("cn")
	case private == '?' && middle == 0:
		return f.Screen && has("hlJKrsm") || f.Answers && has("cnu")
	case private == '>' && middle == 0:
		return f.Screen && has("mu") || f.Answers && has("cq")
	case (private == '<' || private == '=') && middle == 0:
		return f.Screen && has("u") || f.Answers && has("c")
	case private == 0 && middle == ' ':
		return f.Screen && has("q@A") // the cursor's shape, scrolling sideways
	case private == 0 && middle == '!':
		return f.Screen && has("p")
	case middle == '$' && (private == 0 || private == '?'):
		return f.Answers && has("p")
	}
	return false
}
