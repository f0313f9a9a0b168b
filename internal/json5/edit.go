package json5

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Set returns the text with the value at path replaced by another JSON5 value. A
// missing key is added to its object, together with missing objects on the path. An
// index equal to the length of its array adds an element. Nothing else changes.
func (d *Document) Set(path Path, value string) ([]byte, error) {
	value = strings.TrimSpace(value)
	parsed, err := Parse([]byte(value))
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON5: %w", err)
	}
	// A comment that ends with its line would swallow the text after it.
	if strings.Contains(value[parsed.Root.End:], "//") {
		value += d.newline()
	}
	v := d.Root
	for i, step := range path {
		next, err := v.step(step)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmpPath(path[:i]), err)
		}
		if next == nil {
			for j := i + 1; j < len(path); j++ {
				if path[j].Key == "" && path[j].Index > 0 {
					return nil, fmt.Errorf("%s: it is not there; [0] would be its first element", cmpPath(path[:j]))
				}
			}
			return d.insert(v, step, wrap(path[i+1:], value))
		}
		v = next
	}
	return splice(d.Data, edit{v.Start, v.End, value}), nil
}

// Remove returns the text without the key or element at path. If it does not exist, the
// text is unchanged.
func (d *Document) Remove(path Path) ([]byte, error) {
	if len(path) == 0 {
		return nil, fmt.Errorf("the whole text cannot be removed")
	}
	parent := d.Root.Find(path[:len(path)-1])
	if parent == nil {
		return d.Data, nil
	}
	step := path[len(path)-1]
	i := step.Index
	if step.Key != "" {
		i = slices.IndexFunc(parent.Members, func(m Member) bool { return m.Name == step.Key })
	}
	spans := parent.spans()
	if i < 0 || i >= len(spans) || (step.Key == "") != (parent.Kind == Array) {
		return d.Data, nil
	}
	start, end := spans[i][0], spans[i][1]
	var edits []edit
	if comma := d.comma(end); comma >= 0 {
		end = comma + 1
	} else if i > 0 { // the last one: the one before it now ends the list in the same way
		comma := d.comma(spans[i-1][1])
		edits = append(edits, edit{comma, comma + 1, ""})
	}
	start, end = d.wholeLine(start, end)
	return splice(d.Data, append(edits, edit{start, end, ""})...), nil
}

// wholeLine extends a span to the whole line if nothing else is on it, and else over
// the blank space before it.
func (d *Document) wholeLine(start, end int) (int, int) {
	before, after := start, end
	for before > 0 && (d.Data[before-1] == ' ' || d.Data[before-1] == '\t') {
		before--
	}
	for after < len(d.Data) && (d.Data[after] == ' ' || d.Data[after] == '\t' || d.Data[after] == '\r') {
		after++
	}
	if before > 0 && d.Data[before-1] == '\n' && after < len(d.Data) && d.Data[after] == '\n' {
		return before, after + 1
	}
	return before, end
}

// step returns a key or an element; nil is one that can be added.
func (v *Value) step(s Step) (*Value, error) {
	switch {
	case s.Key != "" && v.Kind == Object:
		return v.Get(s.Key), nil
	case s.Key != "":
		return nil, fmt.Errorf("it is %s and has no keys", article(v.Kind))
	case v.Kind != Array:
		return nil, fmt.Errorf("it is %s and has no elements", article(v.Kind))
	case s.Index > len(v.Items):
		return nil, fmt.Errorf("it has %d elements; [%d] would be the next one", len(v.Items), len(v.Items))
	case s.Index == len(v.Items):
		return nil, nil
	}
	return v.Items[s.Index], nil
}

func article(k Kind) string {
	switch k {
	case Array, Object:
		return "an " + k.String()
	case Null:
		return "null"
	}
	return "a " + k.String()
}

func cmpPath(p Path) string {
	if len(p) == 0 {
		return "the document"
	}
	return p.String()
}

// wrap puts value into the objects and arrays of path.
func wrap(path Path, value string) string {
	for _, step := range slices.Backward(path) {
		if step.Key == "" {
			value = "[" + value + "]"
		} else {
			value = "{ " + name(step.Key, false) + ": " + value + " }"
		}
	}
	return value
}

// insert adds a key or an element at the end of v, in the layout of the others.
func (d *Document) insert(v *Value, step Step, value string) ([]byte, error) {
	if step.Key != "" {
		quoted := len(v.Members) > 0 && d.Data[v.Members[0].Start] == '"'
		value = name(step.Key, quoted) + ": " + value
	}
	spans := v.spans()
	if len(spans) == 0 {
		return d.fill(v, value), nil
	}
	last := spans[len(spans)-1]
	comma := d.comma(last[1])
	at := last[1]
	if comma >= 0 {
		at = comma + 1
	}
	indent, ownLine := d.indent(last[0])
	if !ownLine {
		text := ", " + value
		if comma >= 0 {
			text = " " + value
		}
		return splice(d.Data, edit{at, at, text}), nil
	}
	edits := []edit{}
	text := d.newline() + indent + value
	if comma >= 0 {
		text += ","
	} else {
		edits = append(edits, edit{last[1], last[1], ","})
	}
	end := d.restOfLine(at)
	return splice(d.Data, append(edits, edit{end, end, text})...), nil
}

// fill puts the first key or element into v.
func (d *Document) fill(v *Value, value string) []byte {
	inside := d.Data[v.Start+1 : v.End-1]
	if len(bytes.TrimSpace(inside)) == 0 && v != d.Root {
		if v.Kind == Object {
			value = " " + value + " "
		}
		return splice(d.Data, edit{v.Start + 1, v.End - 1, value})
	}
	// There are comments, or it is the whole document: a line of its own.
	indent, _ := d.indent(v.Start)
	before := d.Data[:v.End-1]
	tail := len(bytes.TrimRight(before, " \t\r\n"))
	return splice(d.Data, edit{tail, v.End - 1, d.newline() + indent + "  " + value + "," + d.newline() + indent})
}

// spans returns the ranges of the keys with their values, or of the elements.
func (v *Value) spans() [][2]int {
	var spans [][2]int
	for _, m := range v.Members {
		spans = append(spans, [2]int{m.Start, m.Value.End})
	}
	for _, item := range v.Items {
		spans = append(spans, [2]int{item.Start, item.End})
	}
	return spans
}

// comma returns the offset of the comma after offset; -1 if something else comes first.
func (d *Document) comma(offset int) int {
	p := parser{data: d.Data, at: offset}
	if err := p.space(); err != nil || !p.is(',') {
		return -1
	}
	return p.at
}

// indent returns the blank space at the beginning of the line of offset, and whether
// nothing else is before offset there.
func (d *Document) indent(offset int) (string, bool) {
	start := d.lines[d.Position(offset).Line-1]
	text := d.Data[start:offset]
	blank := len(text) - len(bytes.TrimLeft(text, " \t"))
	return string(text[:blank]), start > 0 && blank == len(text)
}

// restOfLine returns the end of the line of offset, if only blank space and comments
// are between; otherwise offset.
func (d *Document) restOfLine(offset int) int {
	p := parser{data: d.Data, at: offset}
	for {
		r, n := p.rune()
		switch {
		case n == 0, r == '\n', r == '\r':
			return p.at
		case isSpace(r):
			p.at += n
		case r == '/':
			start := p.at
			if p.comment() != nil || bytes.ContainsAny(d.Data[start:p.at], "\n\r") {
				return offset
			}
		default:
			return offset
		}
	}
}

// newline returns the line end that the text uses.
func (d *Document) newline() string {
	if bytes.Contains(d.Data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// name writes a key.
func name(key string, quoted bool) string {
	plain := key != ""
	for i, r := range key {
		plain = plain && r < utf8.RuneSelf && inName(r, i == 0)
	}
	if plain && !quoted {
		return key
	}
	text, err := json.Marshal(key)
	if err != nil { // a string has none
		panic(err)
	}
	return string(text)
}

// An edit puts text in the place of the bytes from start to end.
type edit struct {
	start, end int
	text       string
}

// splice applies edits, which are in the order of the text.
func splice(data []byte, edits ...edit) []byte {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, data[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, data[at:]...)
}
