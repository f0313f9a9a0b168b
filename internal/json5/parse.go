package json5

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// A Document is a text that was read.
type Document struct {
	Data  []byte
	Root  *Value
	lines []int // where each line begins
}

// Parse reads one value, with the blank space and comments around it. The error is a
// *SyntaxError.
func Parse(data []byte) (*Document, error) {
	d := &Document{Data: data, lines: lineStarts(data)}
	p := &parser{data: data}
	err := p.check()
	if err == nil {
		d.Root, err = p.document()
	}
	if err != nil {
		return nil, &SyntaxError{Position: d.Position(p.at), Offset: p.at, Text: err.Error()}
	}
	return d, nil
}

// Position returns the position of the byte at offset.
func (d *Document) Position(offset int) Position {
	offset = min(max(offset, 0), len(d.Data))
	line := 0
	for low, high := 0, len(d.lines); low < high; {
		mid := (low + high) / 2
		if d.lines[mid] <= offset {
			line, low = mid, mid+1
		} else {
			high = mid
		}
	}
	return Position{Line: line + 1, Column: utf8.RuneCount(d.Data[d.lines[line]:offset]) + 1}
}

// lineStarts recognises the line ends of editors: LF, CR LF and CR.
func lineStarts(data []byte) []int {
	lines := []int{0}
	for i, c := range data {
		if c == '\n' || c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// A parser is at a byte; an error is about that place.
type parser struct {
	data  []byte
	at    int
	depth int
}

func (p *parser) check() error {
	if len(p.data) > MaxSize {
		return fmt.Errorf("the text has %d bytes, and %d are the most", len(p.data), MaxSize)
	}
	for i := 0; i < len(p.data); {
		r, n := utf8.DecodeRune(p.data[i:])
		if r == utf8.RuneError && n == 1 {
			p.at = i
			return fmt.Errorf("the byte 0x%02x is not UTF-8", p.data[i])
		}
		i += n
	}
	return nil
}

func (p *parser) document() (*Value, error) {
	if err := p.space(); err != nil {
		return nil, err
	}
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.at < len(p.data) {
		return nil, fmt.Errorf("%s after the end of the value", p.here())
	}
	return v, nil
}

// here describes the parser's place, for messages.
func (p *parser) here() string {
	r, n := p.rune()
	switch {
	case n == 0:
		return "the end of the text"
	case unicode.IsPrint(r):
		return fmt.Sprintf("%q", r)
	}
	return fmt.Sprintf("the character %U", r)
}

// rune returns the character at the parser's place; at the end its size is 0.
func (p *parser) rune() (r rune, size int) {
	if p.at >= len(p.data) {
		return 0, 0
	}
	return utf8.DecodeRune(p.data[p.at:])
}

// is reports whether the parser is at c.
func (p *parser) is(c byte) bool { return p.at < len(p.data) && p.data[p.at] == c }

// space skips blank space and comments.
func (p *parser) space() error {
	for {
		r, n := p.rune()
		switch {
		case n == 0:
			return nil
		case isSpace(r):
			p.at += n
		case r == '/':
			if err := p.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (p *parser) comment() error {
	rest := p.data[p.at:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		for {
			r, n := p.rune()
			if n == 0 || isLineEnd(r) {
				return nil
			}
			p.at += n
		}
	case bytes.HasPrefix(rest, []byte("/*")):
		end := bytes.Index(rest[2:], []byte("*/"))
		if end < 0 {
			return fmt.Errorf("the comment that begins here has no end")
		}
		p.at += end + 4
		return nil
	}
	return fmt.Errorf("%s where no value can begin; comments are // and /* */", p.here())
}

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }

func isSpace(r rune) bool {
	switch r {
	case '\t', '\v', '\f', ' ', '\u00a0', '\ufeff':
		return true
	}
	return isLineEnd(r) || unicode.Is(unicode.Zs, r)
}

func (p *parser) value() (v *Value, err error) {
	v = &Value{Start: p.at}
	r, n := p.rune()
	switch {
	case n == 0:
		return nil, fmt.Errorf("the text ends where a value is expected")
	case r == '{':
		v.Kind = Object
		err = p.nested(func() error { return p.object(v) })
	case r == '[':
		v.Kind = Array
		err = p.nested(func() error { return p.array(v) })
	case r == '"' || r == '\'':
		v.Kind = String
		v.String, err = p.text()
	case r == '+' || r == '-' || r == '.' || r >= '0' && r <= '9':
		v.Kind = Number
		v.Number, err = p.number()
	default:
		err = p.word(v)
	}
	if err != nil {
		return nil, err
	}
	v.End = p.at
	return v, nil
}

func (p *parser) nested(read func() error) error {
	if p.depth == MaxDepth {
		return fmt.Errorf("more than %d arrays and objects in each other", MaxDepth)
	}
	p.depth++
	defer func() { p.depth-- }()
	p.at++ // the bracket
	return read()
}

// next skips to the next element, or over the bracket that closes the list.
func (p *parser) next(closing byte, first bool) (more bool, err error) {
	if err := p.space(); err != nil {
		return false, err
	}
	if !first && !p.is(closing) {
		if !p.is(',') {
			return false, fmt.Errorf("%s where ',' or '%c' is expected", p.here(), closing)
		}
		p.at++
		if err := p.space(); err != nil {
			return false, err
		}
	}
	if p.is(closing) {
		p.at++
		return false, nil
	}
	return true, nil
}

func (p *parser) array(v *Value) error {
	for {
		more, err := p.next(']', len(v.Items) == 0)
		if err != nil || !more {
			return err
		}
		item, err := p.value()
		if err != nil {
			return err
		}
		v.Items = append(v.Items, item)
	}
}

func (p *parser) object(v *Value) error {
	seen := map[string]int{}
	for {
		more, err := p.next('}', len(v.Members) == 0)
		if err != nil || !more {
			return err
		}
		m := Member{Start: p.at}
		if m.Name, err = p.key(); err != nil {
			return err
		}
		m.End = p.at
		if first, twice := seen[m.Name]; twice {
			p.at = m.Start
			d := Document{Data: p.data, lines: lineStarts(p.data)}
			return fmt.Errorf("the key %q is there already, in line %d", m.Name, d.Position(first).Line)
		}
		seen[m.Name] = m.Start
		if err := p.space(); err != nil {
			return err
		}
		if !p.is(':') {
			return fmt.Errorf("%s where ':' is expected after the key %q", p.here(), m.Name)
		}
		p.at++
		if err := p.space(); err != nil {
			return err
		}
		if m.Value, err = p.value(); err != nil {
			return err
		}
		v.Members = append(v.Members, m)
	}
}

// word reads null, true, false, Infinity and NaN.
func (p *parser) word(v *Value) error {
	start := p.at
	name, err := p.identifier()
	if err != nil {
		return err
	}
	if name != string(p.data[start:p.at]) { // written with escapes
		name = ""
	}
	switch name {
	case "null":
		v.Kind = Null
	case "true", "false":
		v.Kind, v.Bool = Bool, name == "true"
	case "Infinity", "NaN":
		v.Kind, v.Number = Number, special(name)
	default:
		text := p.data[start:p.at]
		p.at = start
		return fmt.Errorf("%s is no value; a string needs quotes", text)
	}
	return nil
}
