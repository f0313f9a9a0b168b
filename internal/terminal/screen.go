package terminal

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// A Screen follows a program's output to its terminal. It records how the terminal's
// state differs from a new one: the alternate screen, the codes of keys, the mouse. A
// client that attaches to the program later has to put its terminal into that state,
// and to restore it for the shell afterwards.
//
// Output may be cut anywhere. The zero Screen is a new terminal.
type Screen struct {
	set  map[string]string // the last sequence for each setting
	held []byte            // the beginning of a sequence
	open bool              // the last line has no end
}

// privateModes are the modes of DECSET that are followed, with their first states.
var privateModes = map[string]struct{ on, soft bool }{
	"1": {soft: true}, "5": {}, "6": {soft: true}, "7": {on: true}, "25": {on: true, soft: true}, // cursor keys, colours, origin, wrapping, cursor
	"9": {}, "1000": {}, "1001": {}, "1002": {}, "1003": {}, "1004": {}, "1005": {}, "1006": {}, "1007": {}, "1015": {}, "1016": {}, // mouse, focus
	"47": {}, "1047": {}, "1049": {}, // alternate screen
	"2004": {}, "2026": {}, // bracketed paste, synchronized output
}

// alternateScreens are the modes with a screen of the program's own.
var alternateScreens = []string{"?1049", "?1047", "?47"}

var (
	screenSequence = lazy.Regexp(`\x1b(?:\[\?([0-9;]+)([hl])|([=>])|(c)|\[(!p)|\[4([hl])|\[>4(?:;([0-9]*))?(m)|\[([0-9]*) (q))`)
	// A terminal answers these, as if the answer had been typed: queries of its
	// attributes, status, cursor, modes, size, colours and abilities.
	screenQuery = lazy.Regexp(`\x1b(?:\[[>=]?[0-9]*c|\[\??[0-9;]*n|\[>[0-9]*q|\[\??[0-9;]*\$p|\[[0-9;]*x|\[(?:1[1-9]|2[01])(?:;[0-9]*)*t|\[\?u|` +
		`\][0-9;]*\?[^\x07\x1b]*(?:\x07|\x1b\\)|\]52;[^;]*;\?(?:\x07|\x1b\\)|P[+$]q[^\x1b]*\x1b\\|Z)|\x05`)
	unfinished = lazy.Regexp(`\x1b(?:\[[0-?]*[ -/]*|[ -/]*)\z`)
)

// Write reads output. It never fails.
func (s *Screen) Write(p []byte) (int, error) {
	if len(p) > 0 {
		s.open = p[len(p)-1] != '\n'
	}
	var whole []byte
	whole, s.held = cutSequence(append(s.held, p...))
	for _, m := range screenSequence().FindAllSubmatch(whole, -1) {
		s.obey(m)
	}
	return len(p), nil
}

func (s *Screen) obey(m [][]byte) {
	if s.set == nil {
		s.set = map[string]string{}
	}
	all := string(m[0])
	switch {
	case m[1] != nil:
		for mode := range strings.SplitSeq(string(m[1]), ";") {
			if how, ok := privateModes[mode]; ok {
				s.note("?"+mode, "\x1b[?"+mode+string(m[2]), (string(m[2]) == "h") != how.on)
			}
		}
	case m[3] != nil:
		s.note("keypad", all, all == "\x1b=")
	case m[4] != nil:
		clear(s.set)
	case m[5] != nil:
		maps.DeleteFunc(s.set, func(name, _ string) bool {
			return name == "keypad" || name == "insert" || name[0] == '?' && privateModes[name[1:]].soft
		})
	case m[6] != nil:
		s.note("insert", all, string(m[6]) == "h")
	case m[8] != nil:
		s.note("modified keys", all, len(m[7]) > 0 && string(m[7]) != "0")
	case m[10] != nil:
		s.note("cursor's shape", all, len(m[9]) > 0 && string(m[9]) != "0")
	}
}

// note stores a sequence if it changes a setting from its first state.
func (s *Screen) note(name, sequence string, changed bool) {
	delete(s.set, name)
	if changed {
		s.set[name] = sequence
	}
}

// FullScreen reports whether the program has a screen of its own.
func (s *Screen) FullScreen() bool {
	return slices.ContainsFunc(alternateScreens, func(mode string) bool { return s.set[mode] != "" })
}

// Changed reports whether a setting is not as on a new terminal.
func (s *Screen) Changed() bool { return len(s.set) > 0 }

// Clone returns a copy of the state.
func (s *Screen) Clone() *Screen {
	return &Screen{set: maps.Clone(s.set), held: bytes.Clone(s.held), open: s.open}
}

// Enter returns the sequences that put a new terminal into this state.
func (s *Screen) Enter() string {
	var b strings.Builder
	for _, name := range s.names() {
		b.WriteString(s.set[name])
	}
	return b.String()
}

// Leave returns the sequences that make the terminal like a new one, with the cursor at
// the beginning of a line.
func (s *Screen) Leave() string {
	var b strings.Builder
	b.WriteString("\x18\x1b[0m\x1b(B\x0f") // any unfinished sequence, colours, line drawing
	names := s.names()
	slices.Reverse(names)
	if s.FullScreen() {
		b.WriteString("\x1b[r") // scroll the whole screen; the cursor is restored with the screen
	}
	for _, name := range names {
		b.WriteString(undo(name))
	}
	if s.open && !s.FullScreen() {
		b.WriteString("\r\n")
	}
	return b.String()
}

func undo(name string) string {
	switch name {
	case "keypad":
		return "\x1b>"
	case "insert":
		return "\x1b[4l"
	case "modified keys":
		return "\x1b[>4m"
	case "cursor's shape":
		return "\x1b[0 q"
	}
	if privateModes[name[1:]].on {
		return "\x1b[" + name + "h"
	}
	return "\x1b[" + name + "l"
}

// names returns the changed settings, the alternate screen first: enter it before all
// others, and leave it after all others.
func (s *Screen) names() []string {
	names := slices.Collect(maps.Keys(s.set))
	slices.SortFunc(names, func(a, b string) int {
		if x, y := slices.Contains(alternateScreens, a), slices.Contains(alternateScreens, b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}

// A Past is output that a terminal answered when it was new: queries are removed when
// it is shown again.
type Past struct{ held []byte }

// Show returns the next output to show.
func (o *Past) Show(p []byte) []byte {
	var whole []byte
	whole, o.held = cutSequence(append(o.held, p...))
	return screenQuery().ReplaceAll(whole, nil)
}

// Rest returns the held-back bytes after the last output.
func (o *Past) Rest() []byte {
	rest := o.held
	o.held = nil
	return rest
}

// longestSequence bounds the held-back bytes.
const longestSequence = 4 << 10

// cutSequence cuts the beginning of an escape sequence off the end of output.
func cutSequence(p []byte) (whole, rest []byte) {
	at := len(p)
	if i := bytes.LastIndexByte(p, 0x1b); i >= 0 && unfinished().Match(p[i:]) {
		at = i
	}
	// Strings: OSC and DCS, up to BEL or ESC \.
	if i := max(bytes.LastIndex(p, []byte("\x1b]")), bytes.LastIndex(p, []byte("\x1bP"))); i >= 0 &&
		!bytes.ContainsRune(p[i:], '\a') && !bytes.Contains(p[i:], []byte("\x1b\\")) {
		at = i
	}
	if len(p)-at > longestSequence {
		return p, nil
	}
	return p[:at], bytes.Clone(p[at:])
}
