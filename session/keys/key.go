package keys

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
)

// modifiers are a set; the values are those of xterm's parameter, less one.
type modifiers uint8

const (
	shift modifiers = 1 << iota
	alt
	ctrl
)

func (m modifiers) String() string {
	var names []string
	for _, one := range []struct {
		m    modifiers
		name string
	}{{ctrl, "Ctrl"}, {alt, "Alt"}, {shift, "Shift"}} {
		if m&one.m != 0 {
			names = append(names, one.name)
		}
	}
	return strings.Join(names, " and ")
}

// A key holds the bytes that a named key sends. Fields are empty for forms that it
// lacks.
type key struct {
	name        string // as the documentation spells it
	plain       string
	application string // in application cursor mode
	modified    string // a format, for xterm's parameter
	ctrl, shift string
}

// named maps lower-case names to keys.
var named = makeNamed()

func makeNamed() map[string]key {
	all := make(map[string]key)
	add := func(k key, names ...string) {
		for _, n := range names {
			k.name = n
			all[strings.ToLower(n)] = k
		}
	}
	cursor := func(final string) key {
		return key{plain: "\x1b[" + final, application: "\x1bO" + final, modified: "\x1b[1;%d" + final}
	}
	edit := func(number int) key {
		return key{plain: fmt.Sprintf("\x1b[%d~", number), modified: fmt.Sprintf("\x1b[%d;%%d~", number)}
	}
	inApplication := func(k key, sequence string) key { k.application = sequence; return k }

	add(key{plain: "\r"}, "Enter", "Return")
	add(key{plain: "\t", shift: "\x1b[Z"}, "Tab")
	add(key{plain: "\x1b[Z", shift: "\x1b[Z"}, "BTab")
	add(key{plain: " ", ctrl: "\x00"}, "Space")
	add(key{plain: "\x1b"}, "Escape", "Esc")
	add(key{plain: "\x7f", ctrl: "\b"}, "BSpace", "Backspace")
	add(cursor("A"), "Up")
	add(cursor("B"), "Down")
	add(cursor("C"), "Right")
	add(cursor("D"), "Left")
	add(inApplication(edit(1), "\x1bOH"), "Home")
	add(inApplication(edit(4), "\x1bOF"), "End")
	add(edit(5), "PageUp", "PgUp", "PPage")
	add(edit(6), "PageDown", "PgDn", "NPage")
	add(edit(2), "Insert", "IC")
	add(edit(3), "Delete", "Del", "DC")
	for i, final := range "PQRS" {
		add(key{plain: "\x1bO" + string(final), modified: "\x1b[1;%d" + string(final)}, fmt.Sprintf("F%d", i+1))
	}
	for i, number := range []int{15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34} {
		add(edit(number), fmt.Sprintf("F%d", i+5))
	}
	for i := range 10 {
		add(key{plain: "\x1bO" + string(rune('p'+i))}, fmt.Sprintf("KP%d", i))
	}
	for name, final := range map[string]string{"/": "o", "*": "j", "-": "m", "+": "k", ".": "n", "Enter": "M"} {
		add(key{plain: "\x1bO" + final}, "KP"+name)
	}
	return all
}

// splitModifiers splits the modifiers off a name. The rest is never empty.
func splitModifiers(name string) (modifiers, string) {
	var m modifiers
	for {
		one := prefixed(name)
		switch {
		case one == 0:
			return m, name
		case name[0] == '^':
			name = name[1:]
		default:
			name = name[2:]
		}
		m |= one
	}
}

// prefixed returns the modifier that a name begins with, or 0.
func prefixed(name string) modifiers {
	switch {
	case len(name) > 1 && name[0] == '^':
		return ctrl
	case len(name) < 3 || name[1] != '-':
		return 0
	}
	switch name[0] {
	case 'C', 'c':
		return ctrl
	case 'M', 'm':
		return alt
	case 'S', 's':
		return shift
	}
	return 0
}

// token types an element of Request.Keys.
func (e *encoder) token(position int, token string) error {
	name := token
	if _, one := character(token); !one {
		name = strings.TrimSpace(token)
	}
	if name == "" {
		if token != "" {
			e.report(problem{subject("key", position, token), "is white space only", "it was left out", "Use Space, or literal."})
		}
		return nil
	}
	m, name := splitModifiers(name)
	if r, one := character(name); one {
		e.character(position, token, m, r)
		return nil
	}
	k, ok := named[strings.ToLower(name)]
	switch {
	case !ok:
		e.unknown(position, token, m)
	case m == 0 && k.application != "" && e.options.Cursor == CursorUnknown:
		return corral.Errorf(corral.ErrUnavailable, "poll until the program has started and drawn its screen, then send the keys again",
			"cannot type %s: it is not known yet which bytes the program expects for it", subject("key", position, token))
	default:
		e.key(position, token, m, k)
	}
	return nil
}

// looksNamed matches words that are written like names of keys.
var looksNamed = lazy.Regexp(`^[A-Z][a-z]{1,11}[0-9]?$`)

func (e *encoder) unknown(position int, token string, m modifiers) {
	e.data = append(e.data, token...)
	meant := suggest(strings.TrimSpace(token))
	if m == 0 && meant == "" && !looksNamed().MatchString(token) && !e.options.Strict {
		return
	}
	p := problem{subject: subject("key", position, token), fault: "is not the name of a key", instead: "it was typed as text"}
	if meant != "" {
		p.advice = "Did you mean " + meant + "?"
	}
	e.report(p)
}

func (e *encoder) key(position int, token string, m modifiers, k key) {
	switch {
	case m == 0 && e.options.Cursor == CursorApplication && k.application != "":
		e.data = append(e.data, k.application...)
		return
	case m != 0 && k.modified != "":
		e.data = fmt.Appendf(e.data, k.modified, 1+m)
		return
	}
	bytes, left := k.plain, m&^alt
	if m&ctrl != 0 && k.ctrl != "" {
		bytes, left = k.ctrl, left&^ctrl
	}
	if m&shift != 0 && k.shift != "" {
		bytes, left = k.shift, left&^shift
	}
	e.withAlt(m, bytes)
	e.leftOut(position, token, left)
}

// character returns the only character of s.
func character(s string) (rune, bool) {
	r, size := utf8.DecodeRuneInString(s)
	return r, size == len(s) && (r != utf8.RuneError || size > 1)
}

func (e *encoder) character(position int, token string, m modifiers, r rune) {
	left := m &^ alt
	if m&shift != 0 {
		if r = unicode.ToUpper(r); unicode.IsUpper(r) {
			left &^= shift
		}
	}
	text := string(r)
	if m&ctrl != 0 {
		if b, ok := control(r); ok {
			text, left = string(rune(b)), left&^ctrl
		}
	}
	e.withAlt(m, text)
	e.leftOut(position, token, left)
}

// control applies the rule of X11's XLookupString, and makes DEL of the question mark.
func control(r rune) (byte, bool) {
	switch {
	case r == ' ', '@' <= r && r <= '~':
		return byte(r) & 0x1f, true
	case r == '2':
		return 0, true
	case '3' <= r && r <= '7':
		return byte(r-'3') + 0x1b, true
	case r == '8', r == '?':
		return 0x7f, true
	case r == '/':
		return 0x1f, true
	}
	return 0, false
}

func (e *encoder) withAlt(m modifiers, bytes string) {
	if m&alt != 0 {
		e.data = append(e.data, 0x1b)
	}
	e.data = append(e.data, bytes...)
}

func (e *encoder) leftOut(position int, token string, left modifiers) {
	if left != 0 {
		e.report(problem{subject("key", position, token), "is not a key that a terminal can tell from the one without " + left.String(), "it was sent without", ""})
	}
}
