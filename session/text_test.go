package session

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// gapped is a log with seven bytes left out between two parts.
func gapped(head, tail string) memLog {
	return memLog{text: head + "???????" + tail, gapStart: int64(len(head)), gapEnd: int64(len(head)) + 7}
}

func TestPlainCharacters(t *testing.T) {
	for arg, want := range map[string]string{
		"": "''", "azAZ09": "azAZ09", "a": "a", "z": "z", "A": "A", "Z": "Z", "0": "0", "9": "9", "%+,-./:=@_": "%+,-./:=@_",
		"*a": "'*a'", "a b": "'a b'", "it's": `'it'\''s'`, "`": "'`'", "{": "'{'", "[": "'['", ";": "';'",
	} {
		if got := text(corral.Command{Args: []string{arg}}); got != want {
			t.Errorf("%q: %s, want %s", arg, got, want)
		}
	}
}

func TestShortened(t *testing.T) {
	whole := strings.Repeat("x", MaxText)
	if got := shortened(whole); got != whole {
		t.Errorf("%d bytes became %d", len(whole), len(got))
	}
	half := whole[:MaxText/2]
	got := shortened(half + "middle" + half)
	if !strings.HasPrefix(got, half) || !strings.HasSuffix(got, half) || strings.Contains(got, "middle") || !strings.Contains(got, " 6 ") {
		t.Errorf("%s", strings.Trim(got, "x"))
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text, cut, end string // with at most five characters
	}{
		{"", "", ""},
		{"abcde", "abcde", "abcde"},
		{"äöüßé", "äöüßé", "äöüßé"},
		{"abcdef", "ab…ef", "…cdef"},
	} {
		if got := middleCut(tt.text, 5); got != tt.cut {
			t.Errorf("%q, its middle cut: %q, want %q", tt.text, got, tt.cut)
		}
		if got := oneLine(tt.text, 5); got != tt.end {
			t.Errorf("the end of %q: %q, want %q", tt.text, got, tt.end)
		}
	}
}

func TestTrimStart(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "\x80": "", "\x80\x80\x80": "", "\x9f\x98\x80x": "x", "é": "é", "\x80\x80\x80\x80x": "\ufffdx",
	} {
		if got := trimStart(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A match is found wherever chunks end, and its offset is that in the output.
func TestMatcher(t *testing.T) {
	add := func(m *matcher, off int64, text string) string {
		at, end, ok := m.add(corral.Chunk{Offset: off, Data: []byte(text)})
		return fmt.Sprint(at, end, ok)
	}
	m := matcher{pattern: regexp.MustCompile(`needle`)}
	for _, tt := range []struct {
		off  int64
		text string
		want string
	}{
		{100, "some nee", "0 0 false"},
		{108, "d", "0 0 false"},
		{109, "le", "105 111 true"},
	} {
		if got := add(&m, tt.off, tt.text); got != tt.want {
			t.Errorf("%d: %s, want %s", tt.off, got, tt.want)
		}
	}
	m = matcher{pattern: m.pattern}
	add(&m, 0, "nee")
	if got := add(&m, 4, "dle"); got != "0 0 false" { // a byte is missing
		t.Errorf("over a gap: %s", got)
	}
	// Of much output only the last part is kept.
	m = matcher{pattern: m.pattern}
	for size, want := range map[int]int{2 * maxMatch: 2 * maxMatch, 2*maxMatch + 1: maxMatch} {
		m.text, m.off = nil, 0
		if got := add(&m, 0, strings.Repeat("x", size)); got != "0 0 false" || len(m.text) != want || m.off != int64(size-want) {
			t.Errorf("%d bytes: %s, %d kept from %d", size, got, len(m.text), m.off)
		}
	}
	if got := add(&m, m.off+int64(len(m.text)), "needle"); !strings.HasSuffix(got, " true") {
		t.Errorf("after much output: %s", got)
	}
}

func TestWindow(t *testing.T) {
	n := func(i int) *int { return &i }
	for _, tt := range []struct {
		total         int
		offset, limit *int
		from, to      int
	}{
		{5, nil, nil, 0, 5},
		{DefaultLines + 3, nil, nil, 3, DefaultLines + 3},
		{5, nil, n(2), 3, 5},
		{5, nil, n(9), 0, 5},
		{5, n(2), nil, 2, 5},
		{5, n(9), nil, 5, 5},
		{5, n(2), n(2), 2, 4},
		{5, n(2), n(3), 2, 5},
		{5, n(2), n(4), 2, 5},
		{5, n(4), n(7), 4, 5},
		{5, n(9), n(1), 5, 5},
	} {
		if from, to := window(tt.total, LinesOptions{Offset: tt.offset, Limit: tt.limit}); from != tt.from || to != tt.to {
			t.Errorf("%+v: %d to %d", tt, from, to)
		}
	}
}

// Where output is left out, the lines around it say so, if they are asked for.
func TestLinesAroundAGap(t *testing.T) {
	n := func(i int) *int { return &i }
	const note = "[… 7 bytes left out …]\n"
	for _, tt := range []struct {
		log           memLog
		offset, limit *int
		want          string
	}{
		{gapped("a\nb\n", "c\nd\n"), nil, nil, "a\nb\n" + note + "c\nd\n"},
		{gapped("a\nb", "c\nd"), nil, nil, "a\nb\n" + note + "c\nd"},
		{gapped("a\nb\n", "c\nd\n"), n(0), n(1), "a\n"},
		{gapped("a\nb\n", "c\nd\n"), n(0), n(2), "a\nb\n"},
		{gapped("a\nb\n", "c\nd\n"), n(1), n(2), "b\n" + note + "c\n"},
		{gapped("a\nb\n", "c\nd\n"), n(2), nil, note + "c\nd\n"},
		{gapped("a\nb\n", "c\nd\n"), n(3), nil, "d\n"},
		{gapped("", "c"), nil, nil, note + "c"},
		{gapped("a", ""), nil, nil, "a"},
	} {
		got, err := readLog(t.Context(), tt.log, LinesOptions{Offset: tt.offset, Limit: tt.limit})
		if err != nil || got.Text != tt.want || got.OmittedBytes != 7 {
			t.Errorf("%+v: %q, %v; want %q", tt, got.Text, err, tt.want)
		}
	}
}

func TestPrompts(t *testing.T) {
	for text, want := range map[string]bool{"": false, "x\n": false, "$ ": true, "x\n$ ": true, "$ \x1b[K": true, "x\n\x1b[0m": false, strings.Repeat("x", 300) + "? ": true} {
		if got := atPrompt(t.Context(), memLog{text: text}, int64(len(text))); got != want {
			t.Errorf("%.10q: %v, want %v", text, got, want)
		}
	}
	if atPrompt(t.Context(), memLog{text: "$ "}, 5) {
		t.Error("a prompt before output that cannot be read")
	}
}

// The newest events are kept, and some more, so that not each one costs a copy.
func TestEventsAreBounded(t *testing.T) {
	l := newEventLog()
	l.maximum = 20
	for i := range 23 {
		if want := min(i, 22); len(l.kept) != want {
			t.Errorf("after %d events: %d kept", i, len(l.kept))
		}
		l.show(Event{Seq: int64(i + 1), Type: "t", Approval: fmt.Sprint(i)})
	}
	if len(l.kept) != 20 || l.kept[0].Seq != 4 || l.forgot() != 3 {
		t.Errorf("%d kept, from %d", len(l.kept), l.kept[0].Seq)
	}
	if !l.has("t", "22") || l.has("t", "2") || l.has("u", "22") || l.has("t", "x") {
		t.Error("another event for an approval")
	}
}
