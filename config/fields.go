package config

import (
	"reflect"
	"strings"

	"github.com/corral-exec/corral/policy"
)

// The tags of a field of Agent and Config:
//
//	json     its key
//	doc      what it means, for people
//	default  its built-in default, as JSON, or as it is if it is a string
//	unit     of a number
//	min, max of a number
//	pattern  of a string, item: of the strings in a list; like: one that fits;
//	         form: what it has to be, in words; PORT in the pattern is one of TCP
//	by       what enforces it
//
// A field is a section (a struct), or a value:
//
//	policy.Setting[T]     the innermost level that has the key counts
//	[]policy.Setting[T]   every level counts, the outermost first
//	[]policy.Rule, map[string]T  those of all levels together; of one name, the innermost

// kind is what becomes of a key that several levels have.
type kind int

const (
	section kind = iota
	single
	layered
	rules
	merged
)

// A field is a key of the file. Its value in the file has the type of.
type field struct {
	name string
	kind kind
	of   reflect.Type
	tag  reflect.StructTag
	i    int // in its struct
}

// fields are the keys of a section, in their order.
func fields(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name := sf.Tag.Get("json")
		if name == "" || name == "-" {
			continue
		}
		f := field{name: name, of: sf.Type, tag: sf.Tag, i: i}
		switch {
		case isSetting(sf.Type):
			f.kind, f.of = single, settingOf(sf.Type)
		case sf.Type.Kind() == reflect.Slice && isSetting(sf.Type.Elem()):
			f.kind, f.of = layered, settingOf(sf.Type.Elem())
		case sf.Type == reflect.TypeFor[[]policy.Rule]():
			f.kind = rules
		case sf.Type.Kind() == reflect.Map:
			f.kind = merged
		}
		list = append(list, f)
	}
	return list
}

// isSetting reports whether t is a policy.Setting of something.
func isSetting(t reflect.Type) bool {
	model := reflect.TypeFor[policy.Setting[bool]]()
	name, _, _ := strings.Cut(t.Name(), "[")
	want, _, _ := strings.Cut(model.Name(), "[")
	return t.PkgPath() == model.PkgPath() && name == want
}

func settingOf(t reflect.Type) reflect.Type {
	f, _ := t.FieldByName("Value")
	return f.Type
}
