package terminal

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFilter(t *testing.T) {
	const both, screen, asks, none = "both", "screen", "asks", "none"
	for _, tc := range []struct {
		name, in string
		passes   string // to what it is passed on as it is; else want
		want     string
	}{
		{"text", "plain, ünïcödé 漢字 🐎\r\n\ttab\b\a\v\f", both, ""},
		{"colours", "\x1b[1;31mred\x1b[38;5;7m\x1b[38:2::1:2:3m\x1b[0m\x1b[m", both, ""},
		{"moving and erasing", "\x1b[2A\x1b[10;20H\x1b[K\x1b[2J\x1b7\x1b8\x1bM\x1b[3X", both, ""},
		{"clipboard", "a\x1b]52;c;aGk=\ab", none, "ab"},
		{"clipboard, ended by ST", "a\x1b]52;c;aGk=\x1b\\b", none, "ab"},
		{"clipboard, asked for", "a\x1b]52;c;?\ab", none, "ab"},
		{"clipboard, by 8-bit controls", "a\u009d52;c;aGk=\u009cb", none, "ab"},
		{"clipboard, by bytes", "a\x9d52;c;aGk=\x9cb", none, "ab"},
		{"title", "\x1b]0;you\atext\x1b]2;x\x1b\\", none, "text"},
		{"title's stack, and asking for it", "\x1b[22;0t\x1b[23t\x1b[21t\x1b[8;1;1t", none, ""},
		{"hyperlink", "\x1b]8;;https://example.com\alink\x1b]8;;\a", none, "link"},
		{"palette", "\x1b]4;1;#fff\a\x1b]11;?\a", none, ""},
		{"device control", "a\x1bP$qm\x1b\\b\x1bP+q544e\x1b\\c\u0090x\u009cd", none, "abcd"},
		{"tmux passes it on", "a\x1bPtmux;\x1b\x1b]52;c;aGk=\a\x1b\\b", none, "ab"},
		{"application, privacy, start of string", "a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d", none, "abcd"},
		{"printer", "\x1b[5i\x1b[?5i\x1b[4i", none, ""},
		{"answerback", "a\x05b", asks, "ab"},
		{"attributes, cursor, modes", "\x1b[c\x1b[>c\x1b[6n\x1b[?6n\x1b[?2026$p\x1bZ\x1b[>q\x1b[?u", asks, ""},
		{"a screen of its own", "\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b(0\x1b[1;20r\x1b=\x1b[4 q\x1b[>4;1m\x0e\x0f\x1bc", screen, ""},
		{"out of UTF-8", "a\x1b%@b\x1b%Gc", none, "abc"},
		{"cancelled", "a\x1b]0;x\x18b\x1b[3\x1ac", none, "abc"},
		{"a control within", "a\x1b[3\n1mb", none, "a\n1mb"},
		{"restarted within", "a\x1b[3\x1b[1mb", none, "a\x1b[1mb"},
		{"too long", "a\x1b[" + strings.Repeat("1;", 500) + "mb", none, "ab"},
		{"8-bit colours", "\u009b31mred", none, "\x1b[31mred"},
		{"Latin-1", "caf\xe9!", both, ""},
		{"odd parameters", "a\x1b[1 2mb\x1b[1?mc", none, "abc"},
	} {
		for _, f := range []Filter{{}, {Screen: true}, {Answers: true}, {Screen: true, Answers: true}} {
			want := tc.want
			switch {
			case tc.passes == both, tc.passes == screen && f.Screen, tc.passes == asks && f.Answers:
				want = tc.in
			case tc.passes == screen:
				want = ""
			}
			whole := f
			if got := string(whole.Filter([]byte(tc.in))); got != want {
				t.Errorf("%s, %+v: %q, want %q", tc.name, f, got, want)
			}
			bits := f
			var got []byte
			for i := range len(tc.in) {
				got = append(got, bits.Filter([]byte{tc.in[i]})...)
			}
			if string(got) != want {
				t.Errorf("%s, byte by byte, %+v: %q, want %q", tc.name, f, got, want)
			}
		}
	}
}

// What has no end does not hide everything.
func TestFilterUnending(t *testing.T) {
	var f Filter
	if got := string(f.Filter([]byte("\x1b]0;never\nnext line"))); got != "\nnext line" {
		t.Errorf("%q", got)
	}
	f = Filter{Screen: true}
	if got := f.Filter(append([]byte("\x1b]0;"), bytes.Repeat([]byte{'x'}, 2*maxString)...)); len(got) < maxString/2 {
		t.Errorf("%d bytes are shown", len(got))
	}
}

var reaching = regexp.MustCompile(`\x1b[\]P^_X%]|[\x{80}-\x{9f}]|\x1b\[[0-9;]*[ti]|\x1b\[\?[0-9;]*i`)

// FuzzFilter: nothing that reaches beyond the screen is passed on, wherever the output
// is cut, and what is kept is bounded.
func FuzzFilter(f *testing.F) {
	f.Add([]byte("a\x1b]52;c;aGk=\ab\x1b[31mred\x1b[0m\x9d0;x\x9c"), 3, true, true)
	f.Add([]byte("\x1bPtmux;\x1b\x1b]52;c;aGk=\a\x1b\\"), 1, false, true)
	f.Add([]byte("\xc2\x9d52;c;\xc2"), 2, true, false)
	f.Fuzz(func(t *testing.T, in []byte, at int, screen, answers bool) {
		whole, cut := Filter{Screen: screen, Answers: answers}, Filter{Screen: screen, Answers: answers}
		out := whole.Filter(in)
		if at < 0 || at > len(in) {
			at = len(in) / 2
		}
		two := append(cut.Filter(in[:at]), cut.Filter(in[at:])...)
		if !bytes.Equal(out, two) {
			t.Errorf("%q: %q as a whole, %q cut at %d", in, out, two, at)
		}
		if m := reaching.Find(out); m != nil && utf8.Valid(out) {
			t.Errorf("%q: %q passes", in, m)
		}
		if len(whole.held) > maxSequence || len(out) > len(in)+maxSequence {
			t.Errorf("%d bytes are held, %d of %d shown", len(whole.held), len(out), len(in))
		}
	})
}
