// Package strictjson refuses what encoding/json takes and what can mean two things: a
// key that is given twice (the last would count), a key in other letters than
// a field's, and anything after the value. Two programs that read such text need not
// read the same.
package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Check reports why data is not one JSON value in which no key is given twice. The
// error names the key.
func Check(data []byte) error { return check(data, nil) }

// Decode reads one JSON value into what v points to. Every key has to be that of a
// field, letter by letter, and be given once. The error names the key.
func Decode(data []byte, v any) error {
	if err := check(data, reflect.TypeOf(v)); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("the key %q cannot be a %s", wrong.Field, wrong.Value)
	}
	return err
}

// maxDepth bounds how deep a value is nested.
const maxDepth = 1000

func check(data []byte, t reflect.Type) error {
	w := walker{json.NewDecoder(bytes.NewReader(data))}
	w.dec.UseNumber()
	if err := w.value(t, nil, 0); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is something after the JSON value, at byte %d", w.dec.InputOffset())
	}
	return nil
}

type walker struct{ dec *json.Decoder }

// A place is the keys that lead to a value, from the last. It is written out for an error only.
type place struct {
	up  *place
	key string
}

func (p *place) String() string {
	var keys []string
	for ; p != nil; p = p.up {
		keys = append(keys, p.key)
	}
	slices.Reverse(keys)
	return strings.Join(keys, ".")
}

// value reads one value, which is to become one of a type; nil: of any.
func (w walker) value(t reflect.Type, at *place, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the value is nested more than %d deep", maxDepth)
	}
	token, err := w.dec.Token()
	if err != nil {
		return err
	}
	t = plain(t)
	switch token {
	case json.Delim('['):
		var of reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			of = t.Elem()
		}
		for w.dec.More() {
			if err := w.value(of, at, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		return w.object(t, at, depth)
	default:
		return nil
	}
	_, err = w.dec.Token()
	return err
}

func (w walker) object(t reflect.Type, at *place, depth int) error {
	var known map[string]reflect.Type
	var of reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		known = map[string]reflect.Type{}
		fields(t, known)
	} else if t != nil && t.Kind() == reflect.Map {
		of = t.Elem()
	}
	seen := map[string]bool{}
	for w.dec.More() {
		token, err := w.dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		name := &place{at, key}
		if seen[key] {
			return fmt.Errorf("the key %q is given twice", name)
		}
		seen[key] = true
		next := of
		if known != nil {
			var ok bool
			if next, ok = known[key]; !ok {
				return fmt.Errorf("the key %q is not known", name)
			}
		}
		if err := w.value(next, name, depth+1); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// plain is a type without pointers; nil if it reads its JSON by itself.
func plain(t reflect.Type) reflect.Type {
	for t != nil {
		if t.Implements(unmarshaler) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(unmarshaler) ||
			t.Implements(textUnmarshaler) {
			return nil
		}
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	if t != nil && t.Kind() == reflect.Interface {
		return nil
	}
	return t
}

// fields are what keys of a struct's fields are read into. Fields that others hide are
// not told apart: the reading itself decides.
func fields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded := map[string]reflect.Type{}
			fields(inner, embedded)
			for k, v := range embedded {
				if _, hidden := into[k]; !hidden {
					into[k] = v
				}
			}
		case !f.IsExported():
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
}
