package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

// A node is a JSON value and its place in the file. Errors can name the place, and unknown
// values are kept.
type node struct {
	offset  int    // in bytes; -1: it is new
	line    int    // from 1; 0: it is new
	key     string // such as agents.main.allowlist[2]
	raw     json.RawMessage
	members []member // of an object, in order
	items   []*node  // of an array
}

type member struct {
	name  string
	value *node
}

const (
	maxFile  = 4 << 20 // bytes
	maxDepth = 32
)

// parse reads a JSON text. Unlike encoding/json it refuses duplicate names and invalid
// UTF-8, since their meaning is not clear.
func parse(file string, text []byte) (*node, error) {
	fail := func(offset int, format string, args ...any) error {
		return positioned(file, text, offset, "", fmt.Sprintf(format, args...))
	}
	if len(text) > maxFile {
		return nil, fail(0, "it is larger than %d bytes", maxFile)
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return nil, fail(i, "it has bytes that are no UTF-8")
		}
		i += n
	}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return nil, fail(0, "%v", err)
		}
		at := int(syntax.Offset)
		if !strings.HasPrefix(err.Error(), "unexpected end") {
			at-- // Offset counts the bytes read
		}
		return nil, fail(at, "%v", err)
	}
	p := &parser{text: text, dec: json.NewDecoder(bytes.NewReader(text)), fail: fail, line: 1}
	return p.value("", 0)
}

type parser struct {
	text []byte
	dec  *json.Decoder
	fail func(offset int, format string, args ...any) error
	line int // of the last token, which begins at the byte at
	at   int
}

// token returns the next token, where it begins and its text.
func (p *parser) token() (json.Token, int, json.RawMessage, error) {
	start := int(p.dec.InputOffset())
	start += len(p.text[start:]) - len(bytes.TrimLeft(p.text[start:], " \t\r\n,:"))
	p.line += bytes.Count(p.text[p.at:start], []byte("\n"))
	p.at = start
	t, err := p.dec.Token()
	if err != nil {
		return nil, 0, nil, p.fail(start, "%v", err)
	}
	return t, start, json.RawMessage(p.text[start:p.dec.InputOffset()]), nil
}

func (p *parser) value(key string, depth int) (*node, error) {
	t, start, raw, err := p.token()
	if err != nil {
		return nil, err
	}
	n := &node{offset: start, line: p.line, key: key, raw: raw}
	delim, _ := t.(json.Delim)
	if delim != 0 && depth == maxDepth {
		return nil, p.fail(start, "it is nested deeper than %d levels", maxDepth)
	}
	switch delim {
	case '{':
		n.raw, n.members = nil, []member{}
		names := map[string]bool{}
		for p.dec.More() {
			t, start, _, err := p.token()
			if err != nil {
				return nil, err
			}
			name := t.(string) //nolint:forcetypeassert // names are strings
			if names[name] {
				return nil, p.fail(start, "%s is there twice", strconv.Quote(name))
			}
			names[name] = true
			v, err := p.value(strings.TrimPrefix(key+"."+name, "."), depth+1)
			if err != nil {
				return nil, err
			}
			n.members = append(n.members, member{name, v})
		}
	case '[':
		n.raw, n.items = nil, []*node{}
		for i := 0; p.dec.More(); i++ {
			v, err := p.value(fmt.Sprintf("%s[%d]", key, i), depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
	default:
		return n, nil
	}
	_, _, _, err = p.token() // the end
	return n, err
}

// get returns a member of an object, or nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set replaces a member of an object, or appends one.
func (n *node) set(name string, value *node) {
	for i, m := range n.members {
		if m.name == name {
			n.members[i].value = value
			return
		}
	}
	n.members = append(n.members, member{name, value})
}

func (n *node) remove(name string) {
	n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.name == name })
}

func (n *node) null() bool     { return n == nil || string(n.raw) == "null" }
func (n *node) isObject() bool { return n != nil && n.members != nil }
func (n *node) isArray() bool  { return n != nil && n.items != nil }

// text returns the value of a node that is a string.
func (n *node) text() (string, bool) {
	if n == nil || len(n.raw) == 0 || n.raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(n.raw, &s)
	return s, err == nil
}

// newNode makes a node of a string, a number or a list of strings.
func newNode(v any) *node {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // cannot happen for strings, numbers and lists of them
	}
	return &node{offset: -1, raw: bytes.TrimSpace(b.Bytes())}
}

func newObject() *node { return &node{offset: -1, members: []member{}} }
func newArray() *node  { return &node{offset: -1, items: []*node{}} }

// encode writes the tree for people to read.
func (n *node) encode() []byte {
	var b bytes.Buffer
	n.write(&b, 0)
	b.WriteByte('\n')
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer, depth int) {
	line := func(i, of, depth int) {
		if i > 0 && i < of {
			b.WriteByte(',')
		}
		if of > 0 {
			b.WriteByte('\n')
			b.WriteString(strings.Repeat("  ", depth))
		}
	}
	switch {
	case n.members != nil:
		b.WriteByte('{')
		for i, m := range n.members {
			line(i, len(n.members), depth+1)
			b.Write(newNode(m.name).raw)
			b.WriteString(": ")
			m.value.write(b, depth+1)
		}
		line(0, len(n.members), depth)
		b.WriteByte('}')
	case n.items != nil:
		b.WriteByte('[')
		for i, v := range n.items {
			line(i, len(n.items), depth+1)
			v.write(b, depth+1)
		}
		line(0, len(n.items), depth)
		b.WriteByte(']')
	default:
		b.Write(n.raw)
	}
}

// A FileError is a mistake in a file, with its place.
type FileError struct {
	File   string
	Line   int    // from 1; 0: it concerns the whole file
	Column int    // in characters, from 1
	Offset int    // in bytes, from 0
	Key    string // such as agents.main.allowlist[2]; may be empty
	Text   string // what is wrong
}

func (e *FileError) Error() string {
	where := e.File
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d (byte %d)", e.File, e.Line, e.Column, e.Offset)
	}
	if e.Key != "" {
		where += ": " + e.Key
	}
	return where + ": " + e.Text
}

// positioned makes the error for a place in a file.
func positioned(file string, text []byte, offset int, key, what string) error {
	offset = min(max(0, offset), len(text))
	line := bytes.Count(text[:offset], []byte("\n")) + 1
	column := utf8.RuneCount(text[bytes.LastIndexByte(text[:offset], '\n')+1:offset]) + 1
	e := &FileError{File: file, Line: line, Column: column, Offset: offset, Key: key, Text: what}
	return corral.Errorf(corral.ErrDenied, "mend "+file+" or move it away: nothing is allowed until then", "%w", e)
}
