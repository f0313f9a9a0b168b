package policy

import (
	"strings"
	"testing"
)

// Which text all shells read alike, and which needs more than one dialect.
func TestPlainText(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "azAZ09": true, "a": true, "z": true, "A": true, "Z": true, "0": true, "9": true, "ls -l /x.y": true, "a_b:c,d+e@f%g": true, "a | b; c": true, `'x' "y"`: true,
		"functions": true, "timely": true, "x-time": true, "'time": true,
		"`ls`": false, "{": false, "[ x": false, "@[": false, "a*": false, "$x": false, "(ls)": false, "a&b": false, "a=b": false, "a\nb": false, "a\tb": false, "!x": false, "~": false, "#": false, "\\": false, "<x": false, ">x": false, "^": false, "?": false, "é": false, "\x00": false,
		"time ls": false, "ls;time": false, "x|time|y": false, "export x": false, "readonly x": false, "function f": false, "select x": false, "coproc x": false, "let x": false, "declare x": false, "local x": false, "typeset x": false, "nameref x": false,
	} {
		if got := plainText(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// The place of the first character that shells and terminals do not read alike.
func TestUnreadable(t *testing.T) {
	nested := strings.Repeat("(", maxNesting*4)
	for _, tt := range []struct {
		text string
		at   int
		why  string // empty: readable
	}{
		{"", 0, ""}, {"ls é ☃ \t\n", 0, ""}, {"\ufffd", 0, ""}, {"\x7e", 0, ""}, {"ls\u00b7", 0, ""},
		{strings.Repeat("x", maxText), 0, ""}, {strings.Repeat("x", maxText+1), maxText, "is longer than"},
		{strings.Repeat("coproc ", maxNesting), 0, ""}, {strings.Repeat("coproc ", maxNesting+1), 0, "coprocesses"},
		{"ls\xff", 2, "not UTF-8"}, {"ls\r", 2, "carriage return"}, {"l\x00s", 1, "control character"}, {"l\x1bs", 1, "control character"}, {"ls\x7f", 2, "control character"}, {"ls\u0085", 2, "control character"},
		{"ls\u00a0x", 2, "looks like a space"}, {"l\u200bs", 1, "looks like a space"}, {"\u202els", 0, "looks like a space"},
		{nested, 0, ""}, {nested + "(", len(nested), "nested"}, {strings.ReplaceAll(nested, "(", "{") + "{", len(nested), "nested"}, {nested + ")(", 0, ""}, {nested + "}{", 0, ""}, {nested + ")((", len(nested) + 2, "nested"},
		{"))" + nested, 0, ""}, {"))" + nested + "(", len(nested) + 2, "nested"}, {nested[1:] + "{", 0, ""}, {nested[1:] + "{(", len(nested), "nested"},
	} {
		at, why := unreadable(tt.text)
		if at != tt.at || (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%.20q…, %d bytes: %d, %q; want %d, %q", tt.text, len(tt.text), at, why, tt.at, tt.why)
		}
	}
}

// The list of findings is bounded and says so, and long text of a finding is cut.
func TestManyFindings(t *testing.T) {
	for n, want := range map[int]int{maxFindings: maxFindings, maxFindings + 1: maxFindings + 1, maxFindings + 9: maxFindings + 1} {
		s := &script{}
		for range n {
			s.find(Finding{Kind: Syntax, Text: "x"})
		}
		if last := s.findings[len(s.findings)-1]; len(s.findings) != want || last.unknown != (n > maxFindings) {
			t.Errorf("%d findings: %d kept, the last is %+v", n, len(s.findings), last)
		}
	}
	for n, want := range map[int]int{maxFound: maxFound, maxFound + 1: maxFound} {
		s := &script{}
		s.find(Finding{Text: strings.Repeat("x", n), Offset: 7})
		if got := s.findings[0]; len(got.Text) != want || got.Offset != 7 {
			t.Errorf("%d bytes: %d kept, at %d", n, len(got.Text), got.Offset)
		}
		s = &script{depth: 1}
		s.find(Finding{Offset: 7})
		if got := s.findings[0].Offset; got != -1 {
			t.Errorf("in the text of another shell: at %d", got)
		}
	}
}
