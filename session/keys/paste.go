package keys

import (
	"strings"

	"github.com/corral-exec/corral"
)

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// PasteOptions say how text is pasted.
type PasteOptions struct {
	// Plain leaves the brackets out: the program cannot tell the text from
	// typing, and what it holds arrives unchanged. It is for programs that
	// did not switch bracketed paste on; see Detector.
	Plain bool
	// CR sends each newline (CR LF and LF) as CR, which is the Enter key, as
	// terminals do when text is pasted. Without it newlines stay as they
	// are, which all programs that know bracketed paste accept; a program in
	// raw mode takes LF by itself for C-j.
	CR bool
}

// Paste returns the bytes of pasting text.
//
// In brackets, text stays text. Control characters other than tab, LF and CR
// are shown by their pictures: U+2400 to U+241F for the first 32 (ESC is ␛),
// U+2421 for DEL. U+FFFD stands for those of U+0080 to U+009F, and for every
// byte that is not UTF-8. Otherwise text that holds the end of the brackets, or
// a C-c that the terminal driver obeys, would have the rest of it taken for
// typing, and a shell would run it.
//
// A program that reads lines from a terminal in its normal mode gets at most
// 4095 bytes of a line (Linux); the driver drops the rest.
//
// The error is corral.ErrInvalid, for more than MaxBytes.
func Paste(text string, o PasteOptions) ([]byte, error) {
	if len(text) > MaxBytes {
		return nil, tooMuch(len(text))
	}
	if o.CR {
		text = strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(text)
	}
	if !o.Plain {
		text = pasteStart + strings.Map(visible, text) + pasteEnd
	}
	if len(text) > MaxBytes {
		return nil, tooMuch(len(text))
	}
	return []byte(text), nil
}

func tooMuch(n int) error {
	return corral.Errorf(corral.ErrInvalid, "paste it in several calls, or put it into a file", "cannot paste %d bytes: more than %d", n, MaxBytes)
}

// visible is the identity but for control characters.
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
