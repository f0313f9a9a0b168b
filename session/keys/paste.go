package keys

import (
	"strings"

	"github.com/corral-exec/corral"
)

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// PasteOptions say how to paste text.
type PasteOptions struct {
	// Plain leaves the brackets out. The program cannot tell the text from typing, and
	// the text arrives unchanged. Use it for programs that did not switch bracketed
	// paste on; see Detector.
	Plain bool
	// CR sends each newline (CR LF and LF) as CR, the Enter key, as terminals do when
	// text is pasted. Without it newlines stay as they are. All programs that know
	// bracketed paste accept that; a program in raw mode reads LF by itself as C-j.
	CR bool
}

// Paste returns the bytes that paste a text.
//
// In brackets, text stays text. Control characters other than tab, LF and CR are
// replaced by their pictures: U+2400 to U+241F for the first 32 (ESC is ␛), U+2421 for
// DEL. U+FFFD replaces those of U+0080 to U+009F, and every byte that is not UTF-8.
// Otherwise a text could hold the end of the brackets, or a C-c that the terminal
// driver obeys. Then the rest of the text would count as typing, and a shell would run
// it.
//
// A program that reads lines from a terminal in its normal mode gets at most
// 4095 bytes of a line (Linux); the driver drops the rest.
//
// The error is corral.ErrInvalid, for more than MaxBytes.
func Paste(text string, o PasteOptions) ([]byte, error) {
	if o.CR {
		text = strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(text)
	}
	if !o.Plain {
		text = pasteStart + strings.Map(visible, text) + pasteEnd
	}
	if len(text) > MaxBytes {
		return nil, corral.Errorf(corral.ErrInvalid, "paste it in several calls, or put it into a file", "cannot paste %d bytes: more than %d", len(text), MaxBytes)
	}
	return []byte(text), nil
}

// visible replaces control characters and keeps all others.
func visible(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return r
	case r < ' ':
		return '␀' + r
	case r == 0x7f:
		return '␡'
	case 0x80 <= r && r < 0xa0:
		return '\ufffd'
	}
	return r
}
