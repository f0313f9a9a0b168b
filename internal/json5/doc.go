// Package json5 reads JSON5 (https://spec.json5.org) into a tree with the positions of
// all values, and edits a text in place: comments, order and layout stay as they are.
//
// It is for files that people write. Beyond the grammar it refuses likely mistakes: a
// key that is twice in an object, text that is not UTF-8, more than [MaxSize] bytes and
// more than [MaxDepth] levels.
package json5

import "fmt"

// Bounds of a text.
const (
	MaxSize  = 1 << 20 // bytes
	MaxDepth = 64      // of arrays and objects in each other
)

// Kind is the kind of a value.
type Kind uint8

// The kinds. The zero Kind is none of them.
const (
	Null Kind = iota + 1
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

var kindNames = []string{"nothing", "null", "boolean", "number", "string", "array", "object"}

// A Value is one value of a text, from the byte Start up to End. Fields that its Kind
// does not use are zero.
type Value struct {
	Kind       Kind
	Start, End int

	Bool    bool
	Number  float64 // also ±Inf and NaN, which JSON5 can write
	String  string
	Items   []*Value
	Members []Member // in the order of the text, without duplicates
}

// A Member is a key of an object and its value. Start and End are those of the key.
type Member struct {
	Name       string
	Start, End int
	Value      *Value
}

// Get returns the value of a key, and nil if there is none.
func (v *Value) Get(name string) *Value {
	if m := v.Member(name); m != nil {
		return m.Value
	}
	return nil
}

// Member returns a key with its value, and nil if there is none.
func (v *Value) Member(name string) *Member {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return &v.Members[i]
		}
	}
	return nil
}

// A Position is a place in a text, as editors show it: both count from 1, Column in
// characters.
type Position struct{ Line, Column int }

func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// A SyntaxError says what is wrong with a text, and where.
type SyntaxError struct {
	Position
	Offset int // in bytes, from 0
	Text   string
}

func (e *SyntaxError) Error() string { return e.Position.String() + ": " + e.Text }
