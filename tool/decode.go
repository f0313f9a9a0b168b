package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/strictjson"
	"github.com/corral-exec/corral/internal/words"
)

const (
	// MaxArguments bounds the JSON of a call, in bytes.
	MaxArguments = 4 << 20

	maxUnknown = 10 // fields that warnings name
	maxShown   = 60 // bytes of a value that an error or a warning shows
)

// Decode reads the arguments of a call into a struct with strings, booleans, numbers,
// lists and maps of strings, and pointers to these. A value of another JSON type than the
// field's is converted if its meaning is clear: "5" to a number, "true" to a boolean, a
// number to text in lists and maps. A duplicate key is refused. The warnings name the
// members for which there is no field.
func Decode(raw json.RawMessage, into any) (warnings []string, err error) {
	if len(raw) > MaxArguments {
		return nil, corral.Errorf(corral.ErrInvalid, "pass large data in a file or with several calls", "the arguments have %d bytes, more than %d", len(raw), MaxArguments)
	}
	given, err := object(raw)
	if err != nil {
		return nil, err
	}
	target := reflect.ValueOf(into).Elem()
	var known []string
	for i := range target.NumField() {
		name := jsonName(target.Type().Field(i))
		known = append(known, name)
		value, ok := given[name]
		delete(given, name)
		if !ok || isNull(value) {
			continue
		}
		if err := assign(target.Field(i), name, value); err != nil {
			return nil, err
		}
	}
	return unknownFields(given, known), nil
}

// object reads a JSON object. Missing arguments are an empty one.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if text := bytes.TrimSpace(raw); len(text) == 0 || isNull(text) {
		return nil, nil
	}
	if err := strictjson.Check(raw); err != nil && json.Valid(raw) {
		return nil, corral.Errorf(corral.ErrInvalid, "give each key once", "the arguments can be read in two ways: %w", err)
	}
	var given map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(raw))
	err := dec.Decode(&given)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return nil, corral.Errorf(corral.ErrInvalid, "give a JSON object, such as {\"command\": \"ls\"}", "the arguments are %s, not an object", shown(raw))
	case err != nil:
		return nil, corral.Errorf(corral.ErrInvalid, "give a JSON object, such as {\"command\": \"ls\"}", "the arguments are not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, corral.Errorf(corral.ErrInvalid, "give one JSON object", "the arguments go on after their end, at byte %d", dec.InputOffset())
	}
	return given, nil
}

func isNull(value []byte) bool { return string(value) == "null" }

// assign puts a JSON value into a field.
func assign(field reflect.Value, name string, value json.RawMessage) error {
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return assign(field.Elem(), name, value)
	case reflect.String:
		var text string
		if json.Unmarshal(value, &text) != nil {
			return wrong(name, value, "give a string")
		}
		field.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(bare(value))))
		if err != nil {
			return wrong(name, value, "give true or false")
		}
		field.SetBool(b)
	case reflect.Int:
		n, ok := asNumber(value)
		if !ok || n != math.Trunc(n) || math.Abs(n) > math.MaxInt32 {
			return wrong(name, value, "give a whole number")
		}
		field.SetInt(int64(n))
	case reflect.Float64:
		n, ok := asNumber(value)
		if !ok {
			return wrong(name, value, "give a number")
		}
		field.SetFloat(n)
	case reflect.Slice:
		return assignList(field, name, value)
	case reflect.Map:
		return assignMap(field, name, value)
	default:
		return fmt.Errorf("the field %s is of a kind that is not decoded: %v", name, field.Kind())
	}
	return nil
}

// assignList reads a list of strings. A single value is a list of one.
func assignList(field reflect.Value, name string, value json.RawMessage) error {
	var elements []json.RawMessage
	if json.Unmarshal(value, &elements) != nil {
		elements = []json.RawMessage{value}
	}
	list := make([]string, len(elements))
	for i, e := range elements {
		text, ok := asText(e)
		if !ok {
			return wrong(fmt.Sprintf("%s[%d]", name, i), e, "give a list of strings")
		}
		list[i] = text
	}
	field.Set(reflect.ValueOf(list))
	return nil
}

// assignMap reads an object of strings.
func assignMap(field reflect.Value, name string, value json.RawMessage) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return wrong(name, value, `give an object of strings, such as {"LANG": "C"}`)
	}
	m := make(map[string]string, len(members))
	for k, v := range members {
		text, ok := asText(v)
		if !ok {
			return wrong(name+"."+cut(k), v, "give a string")
		}
		m[k] = text
	}
	field.Set(reflect.ValueOf(m))
	return nil
}

// asText is the text of a string, or of a number or boolean as it is written.
func asText(value json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(value, &text) == nil && !isNull(value) {
		return text, true
	}
	switch value[0] {
	case '{', '[', 'n':
		return "", false
	}
	return string(value), true
}

// asNumber is a number, or a string that holds one.
func asNumber(value json.RawMessage) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(bare(value)), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// bare is a value without the quotes of a string.
func bare(value json.RawMessage) string {
	var text string
	if value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

func wrong(name string, value json.RawMessage, want string) error {
	return corral.Errorf(corral.ErrInvalid, want, "%s: %s does not fit", name, shown(value))
}

// shown is a JSON value, cut short.
func shown(value []byte) string { return cut(string(bytes.TrimSpace(value))) }

func cut(text string) string { return words.Cut(text, maxShown) }

// unknownFields warns of fields that are not known.
func unknownFields(given map[string]json.RawMessage, known []string) []string {
	names := slices.Sorted(maps.Keys(given))
	var warnings []string
	for i, name := range names {
		if i == maxUnknown {
			warnings = append(warnings, fmt.Sprintf("%d more unknown parameters are ignored.", len(names)-i))
			break
		}
		w := fmt.Sprintf("The parameter %q is not known and is ignored.", cut(name))
		for _, k := range known {
			if plain(k) == plain(name) {
				w = fmt.Sprintf("The parameter %q is not known and is ignored: did you mean %q?", cut(name), k)
			}
		}
		warnings = append(warnings, w)
	}
	return warnings
}

// plain is a name without case and separators, so that session_id and SessionId match
// sessionId.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}
