package keys

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
)

func TestPaste(t *testing.T) {
	for _, tc := range []struct {
		text string
		o    PasteOptions
		want string
	}{
		{"", PasteOptions{}, "\x1b[200~\x1b[201~"},
		{"a\tb\r\nc\n", PasteOptions{}, "\x1b[200~a\tb\r\nc\n\x1b[201~"},
		{"a\tb\r\nc\n\r", PasteOptions{CR: true}, "\x1b[200~a\tb\rc\r\r\x1b[201~"},
		{"a\nb", PasteOptions{Plain: true}, "a\nb"},
		{"a\nb", PasteOptions{Plain: true, CR: true}, "a\rb"},
		{"\x1b[201~\x03\xff", PasteOptions{Plain: true}, "\x1b[201~\x03\xff"},
		{"a\x1b[201~b", PasteOptions{}, "\x1b[200~a␛[201~b\x1b[201~"},
		{"\x1b[20\x1b[201~1~", PasteOptions{}, "\x1b[200~␛[20␛[201~1~\x1b[201~"},
		{"\x00\x03\x1f\x7f", PasteOptions{}, "\x1b[200~␀␃␟␡\x1b[201~"},
		{"\u009b201~\x9b201~", PasteOptions{}, "\x1b[200~\ufffd201~\ufffd201~\x1b[201~"},
		{"żółw 🐢", PasteOptions{}, "\x1b[200~żółw 🐢\x1b[201~"},
	} {
		if got, err := Paste(tc.text, tc.o); err != nil || string(got) != tc.want {
			t.Errorf("Paste(%q, %+v) = %q, %v, want %q", tc.text, tc.o, got, err, tc.want)
		}
	}
}

func TestPasteBounds(t *testing.T) {
	for n, ok := range map[int]bool{MaxBytes - 12: true, MaxBytes - 11: false, MaxBytes + 1: false} {
		got, err := Paste(strings.Repeat("x", n), PasteOptions{})
		if (err == nil) != ok || err != nil && (!errors.Is(err, corral.ErrInvalid) || got != nil) {
			t.Errorf("%d bytes: %d bytes, %v", n, len(got), err)
		}
	}
	if got, err := Paste(strings.Repeat("\x1b", MaxBytes/2), PasteOptions{}); err == nil {
		t.Errorf("a text that grows: %d bytes", len(got))
	}
}

// The controls of U+0080 to U+009F are replaced, and their neighbours are text.
func TestPasteControls(t *testing.T) {
	got, err := Paste("~\x7f\u0080\u009f\u00a0\u001f ", PasteOptions{})
	if want := pasteStart + "~␡��\u00a0␟ " + pasteEnd; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// checkPasted fails unless what is between the brackets is text that neither
// a program nor a terminal driver takes for anything else.
func checkPasted(t interface{ Fatalf(string, ...any) }, text string, pasted []byte) {
	inner, ok := strings.CutPrefix(string(pasted), pasteStart)
	if !ok {
		t.Fatalf("%q does not begin with a bracket", pasted)
	}
	inner, ok = strings.CutSuffix(inner, pasteEnd)
	if !ok {
		t.Fatalf("%q does not end with a bracket", pasted)
	}
	if !utf8.ValidString(inner) {
		t.Fatalf("%q is not UTF-8", inner)
	}
	for _, r := range inner {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || 0x7f <= r && r < 0xa0 {
			t.Fatalf("%q holds the control character %U", inner, r)
		}
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return visible(r) != r }) && utf8.ValidString(text) && inner != text {
		t.Fatalf("the text %q was changed to %q", text, inner)
	}
}

func TestPasteStaysInside(t *testing.T) {
	pieces := []string{"\x1b", "[", "2", "0", "1", "~", "201~", pasteEnd, pasteStart, "\x03", "\u009b", "\x9b", "x", "\n", "é"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces"), "")
		got, err := Paste(text, PasteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkPasted(t, text, got)
	})
}

func FuzzPaste(f *testing.F) {
	f.Add("a\x1b[201~b", false)
	f.Add("line\r\n", true)
	f.Fuzz(func(t *testing.T, text string, cr bool) {
		got, err := Paste(text, PasteOptions{CR: cr})
		if err != nil {
			if 3*len(text) <= MaxBytes-len(pasteStart+pasteEnd) {
				t.Fatal(err)
			}
			return
		}
		if cr {
			if strings.Contains(string(got), "\n") {
				t.Fatalf("%q holds LF", got)
			}
			text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\r"), "\n", "\r")
		}
		checkPasted(t, text, got)
	})
}
