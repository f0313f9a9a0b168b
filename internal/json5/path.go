package json5

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Path leads from a value to one inside of it.
type Path []Step

// A Step is a key of an object, or an index of an array if Key is empty.
type Step struct {
	Key   string
	Index int // from 0
}

// maxIndex is beyond the end of any list.
const maxIndex = 1 << 20

// ParsePath reads a path such as agents.list[0].tools or tools["a.b"]. The
// empty text is the whole document.
func ParsePath(text string) (Path, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%q is not UTF-8", text)
	}
	var path Path
	rest := text
	for rest != "" {
		step, n, err := parseStep(rest, len(path) == 0)
		if err != nil {
			return nil, fmt.Errorf("%q is no path: %w", text, err)
		}
		if path = append(path, step); len(path) > MaxDepth {
			return nil, fmt.Errorf("%.40q… has more than %d parts", text, MaxDepth)
		}
		rest = rest[n:]
	}
	return path, nil
}

// parseStep reads the first step of text, and returns its length.
func parseStep(text string, first bool) (step Step, n int, err error) {
	if inner, ok := strings.CutPrefix(text, `["`); ok {
		var key string
		dec := json.NewDecoder(strings.NewReader(`"` + inner))
		if err := dec.Decode(&key); err != nil || key == "" {
			return step, 0, fmt.Errorf("the key after %s is not in quotes", text[:1])
		}
		end := 1 + int(dec.InputOffset())
		if !strings.HasPrefix(text[end:], "]") {
			return step, 0, fmt.Errorf("']' is missing after %q", key)
		}
		return Step{Key: key}, end + 1, nil
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		digits, _, closed := strings.Cut(inner, "]")
		i, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || !closed || i > maxIndex {
			return step, 0, fmt.Errorf("after '[' comes a number from 0 and ']', or a key in quotes")
		}
		return Step{Index: int(i)}, len(digits) + 2, nil
	}
	if !first {
		var dot bool
		if text, dot = strings.CutPrefix(text, "."); !dot {
			return step, 0, fmt.Errorf("'.' or '[' is expected before %q", text)
		}
		n = 1
	}
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return step, 0, fmt.Errorf("a key is missing")
	}
	return Step{Key: text[:end]}, n + end, nil
}

// String returns the path in the form for ParsePath.
func (p Path) String() string {
	var s strings.Builder
	for _, step := range p {
		switch {
		case step.Key == "":
			fmt.Fprintf(&s, "[%d]", step.Index)
		case strings.ContainsAny(step.Key, `.[]"\`+"\n\r\t "):
			quoted, err := json.Marshal(step.Key)
			if err != nil { // a string has none
				panic(err)
			}
			fmt.Fprintf(&s, "[%s]", quoted)
		default:
			if s.Len() > 0 {
				s.WriteByte('.')
			}
			s.WriteString(step.Key)
		}
	}
	return s.String()
}

// Key returns the path of a key of the value at p.
func (p Path) Key(name string) Path { return append(p[:len(p):len(p)], Step{Key: name}) }

// Item returns the path of an element of the value at p.
func (p Path) Item(i int) Path { return append(p[:len(p):len(p)], Step{Index: i}) }

// Find returns the value at the path, or nil.
func (v *Value) Find(p Path) *Value {
	for _, step := range p {
		switch {
		case v == nil:
			return nil
		case step.Key != "":
			v = v.Get(step.Key)
		case v.Kind == Array && step.Index < len(v.Items):
			v = v.Items[step.Index]
		default:
			return nil
		}
	}
	return v
}
