package config

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral/internal/json5"
	"github.com/corral-exec/corral/internal/spelling"
)

// check notes what is not right with a document.
func check(doc *json5.Document) *mistakes {
	m := &mistakes{doc: doc}
	m.fit(doc.Root, schema(), nil)
	m.more()
	return m
}

// fit notes where a value does not fit the schema. It knows the keywords that
// this package uses; validators of JSON Schema come to the same answers, with
// less to say about them.
func (m *mistakes) fit(v *json5.Value, s *jsonschema.Schema, at json5.Path) {
	if !slices.Contains(types(s), typeOf(v, s)) {
		m.add(v.Start, at, "it is %s; use %s", describe(v), wanted(s))
		return
	}
	switch v.Kind {
	case json5.Bool:
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, any(v.Bool)) {
			m.add(v.Start, at, "it cannot be %t: %s", v.Bool, s.Description)
		}
	case json5.Number:
		m.fitNumber(v, s, at)
	case json5.String:
		m.fitString(v, s, at)
	case json5.Array:
		if s.MaxItems != nil && len(v.Items) > *s.MaxItems {
			m.add(v.Start, at, "it has %d elements; %d are the most", len(v.Items), *s.MaxItems)
			return
		}
		for i, item := range v.Items {
			m.fit(item, s.Items, at.Item(i))
		}
	case json5.Object:
		m.fitObject(v, s, at)
	}
}

func (m *mistakes) fitNumber(v *json5.Value, s *jsonschema.Schema, at json5.Path) {
	n, unit := v.Number, ""
	if u, ok := s.Extra[keyUnit].(string); ok {
		unit = " " + u
	}
	switch {
	case s.Minimum != nil && n < *s.Minimum, s.Maximum != nil && n > *s.Maximum:
		m.add(v.Start, at, "%s is out of range; use %s%s", number64(n), bounds(s), unit)
	}
}

func (m *mistakes) fitString(v *json5.Value, s *jsonschema.Schema, at json5.Path) {
	switch {
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, any(v.String)):
		m.add(v.Start, at, "there is no %q; use %s", shorten(v.String), strings.Join(enum(s), ", "))
	case s.MaxLength != nil && utf8.RuneCountInString(v.String) > *s.MaxLength:
		m.add(v.Start, at, "it has %d characters; %d are the most", utf8.RuneCountInString(v.String), *s.MaxLength)
	case s.Pattern != "" && !compiled(s.Pattern).MatchString(v.String):
		if strings.TrimSpace(v.String) == "" {
			m.add(v.Start, at, "it is blank; leave it out if there is nothing to say")
		} else {
			m.add(v.Start, at, "%q is not right; %s", shorten(v.String), instead(s))
			if s.Extra[keyForm] != nil {
				m.form = append(m.form, v.Start)
			}
		}
	}
}

func (m *mistakes) fitObject(v *json5.Value, s *jsonschema.Schema, at json5.Path) {
	if s.MaxProperties != nil && len(v.Members) > *s.MaxProperties {
		m.add(v.Start, at, "it has %d keys; %d are the most", len(v.Members), *s.MaxProperties)
		return
	}
	for _, member := range v.Members {
		p := property(s, member.Name)
		if member.Name == "" {
			m.add(member.Start, at, "a key is empty")
			continue
		}
		if p == nil {
			m.add(member.Start, at.Key(member.Name), "%s", unknownKey(s, at, member.Name))
			continue
		}
		m.fit(member.Value, p, at.Key(member.Name))
	}
	for _, name := range s.Required {
		if v.Get(name) == nil {
			m.add(v.Start, at.Key(name), "it is missing; %s", s.Properties[name].Description)
		}
	}
}

// property is the schema of a key; nil if there may be none of that name.
func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	if p := s.Properties[name]; p != nil {
		return p
	}
	if more := s.AdditionalProperties; more != nil && more.Not == nil && name != "" {
		return more
	}
	return nil
}

// unknownKey says that there is no such key, and which one was meant.
func unknownKey(s *jsonschema.Schema, at json5.Path, name string) string {
	if hint, ok := elsewhere[name]; ok && property(s, hint) != nil {
		return "there is no such key; it is called " + hint + " here"
	} else if ok && strings.ContainsAny(hint, ". ") {
		return "there is no such key; " + hint
	}
	if like := spelling.Nearest(name, s.PropertyOrder); like != "" {
		return "there is no such key; did you mean " + at.Key(like).String() + "?"
	}
	if len(s.PropertyOrder) == 0 {
		return "there is no such key"
	}
	return "there is no such key; there are " + strings.Join(s.PropertyOrder, ", ")
}

// elsewhere are names that keys have in the files of other tools.
var elsewhere = map[string]string{
	"backgroundMs": "yieldMs", "timeoutSec": "timeout", "timeoutSeconds": "timeout", "timeoutMs": "timeout",
	"safeBinTrustedDirs": "safeBinDirs", "allowedTools": "coreTools", "alsoAllow": "allow", "entries": "list",
	"pidsLimit": "pids", "elevatedDefault": "tools.elevated.default is the key for it",
	"useAccessGroups": "commands.allowFrom says who may use /exec",
	"docker":          "image, memory, cpus, pids and user are keys of sandbox itself",
	"mode":            "tools.exec.host, tools.exec.security and tools.exec.ask say each of it",
}

// types are what a value may be. A schema without any is one of strings.
func types(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

// typeOf is the type that JSON Schema gives v, "integer" where s asks for it.
func typeOf(v *json5.Value, s *jsonschema.Schema) string {
	if v.Kind == json5.Number {
		switch {
		case math.IsNaN(v.Number) || math.IsInf(v.Number, 0):
			return v.Kind.String() + " that JSON does not have"
		case slices.Contains(types(s), "integer") && v.Number == math.Trunc(v.Number):
			return "integer"
		}
	}
	return v.Kind.String()
}

// describe names a value, for messages.
func describe(v *json5.Value) string {
	switch v.Kind {
	case json5.String:
		return fmt.Sprintf("the string %q", shorten(v.String))
	case json5.Number:
		return "the number " + number64(v.Number)
	case json5.Bool:
		return strconv.FormatBool(v.Bool)
	case json5.Array:
		return "a list"
	case json5.Object:
		return "an object"
	}
	return v.Kind.String()
}

// wanted names what a schema takes.
func wanted(s *jsonschema.Schema) string {
	var words []string
	for _, t := range types(s) {
		switch {
		case len(s.Enum) > 0:
			words = append(words, strings.Join(enum(s), ", "))
		case t == "boolean":
			words = append(words, "true or false")
		case t == "integer":
			words = append(words, "a whole number"+unitOf(s))
		case t == "number":
			words = append(words, "a number"+unitOf(s))
		case t == "string" && s.Pattern != "" && len(types(s)) > 1:
			words = append(words, `a string such as "`+fmt.Sprint(s.Examples[0])+`"`)
		case t == "string":
			words = append(words, "a string")
		case t == "array":
			words = append(words, "a list [ … ]")
		case t == "object":
			words = append(words, "an object { … }")
		}
	}
	return strings.Join(words, " or ")
}

func unitOf(s *jsonschema.Schema) string {
	if unit, ok := s.Extra[keyUnit].(string); ok {
		return " (" + unit + ")"
	}
	return ""
}

func enum(s *jsonschema.Schema) []string { return inWords(s.Enum) }

func inWords(values []any) []string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprint(v))
	}
	return list
}

// instead says what to write where a string does not fit.
func instead(s *jsonschema.Schema) string {
	if form, ok := s.Extra[keyForm].(string); ok {
		return "it has to be " + form + ", such as " + like(s)
	}
	if s.Pattern == "^"+unlimited+"$" { // in the place of a number
		return "use " + wanted(s)
	}
	return "write something like " + like(s)
}

// like names strings that fit a schema.
func like(s *jsonschema.Schema) string { return strings.Join(inWords(s.Examples), ", ") }

// bounds names the range of a number.
func bounds(s *jsonschema.Schema) string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return "a number from " + number64(*s.Minimum) + " to " + number64(*s.Maximum)
	case s.Minimum != nil:
		return "at least " + number64(*s.Minimum)
	}
	return "another number"
}

func number64(f float64) string {
	if math.Abs(f) < 1e16 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// shorten keeps a message on one line.
func shorten(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// compiled are the patterns of the schema.
func compiled(pattern string) *regexp.Regexp {
	if re, ok := patterns.Load(pattern); ok {
		return re.(*regexp.Regexp)
	}
	re := regexp.MustCompile(pattern)
	patterns.Store(pattern, re)
	return re
}

var patterns sync.Map

// lookup is the schema of what a path leads to. The error names the key that
// does not exist.
func lookup(path json5.Path) (*jsonschema.Schema, error) {
	s := schema()
	for i, step := range path {
		var next *jsonschema.Schema
		switch {
		case step.Key != "":
			next = property(s, step.Key)
		default:
			next = s.Items
		}
		if next == nil {
			if step.Key == "" || !slices.Contains(types(s), "object") {
				return nil, fmt.Errorf("%s: there is nothing in it by that name: it takes %s", path[:i+1], wanted(s))
			}
			return nil, fmt.Errorf("%s: %s", path[:i+1], unknownKey(s, path[:i], step.Key))
		}
		s = next
	}
	return s, nil
}

// Keys are the paths of every key that a file can have, sorted. An element of a
// list is written [0], a name that people choose NAME.
func Keys() []string {
	seen := map[string]bool{}
	var walk func(s *jsonschema.Schema, at json5.Path)
	walk = func(s *jsonschema.Schema, at json5.Path) {
		if len(at) > 0 {
			seen[at.String()] = true
		}
		for name, p := range s.Properties {
			walk(p, at.Key(name))
		}
		if more := s.AdditionalProperties; more != nil && more.Not == nil {
			walk(more, at.Key("NAME"))
		}
		if s.Items != nil {
			walk(s.Items, at.Item(0))
		}
	}
	walk(schema(), nil)
	return slices.Sorted(maps.Keys(seen))
}

// Words are the values that a key can have, if these are a closed set; what
// else it takes as well is left out.
func Words(key string) []string {
	path, err := json5.ParsePath(key)
	if err != nil {
		return nil
	}
	s, err := lookup(path)
	switch {
	case err != nil:
		return nil
	case slices.Contains(types(s), "boolean"):
		return []string{"true", "false"}
	case compiled(s.Pattern).String() == "^"+unlimited+"$":
		return []string{unlimited}
	}
	return enum(s)
}
