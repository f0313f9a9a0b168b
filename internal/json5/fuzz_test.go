package json5

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"
)

// Whatever is JSON is JSON5 and means the same; what is JSON5 means the same
// when it is written as JSON; and nothing makes the parser panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{a: 1, 'b': [0x1F, .5, -Infinity,], /* c */ \"d\": '\\x41\\u00e9\\\n'}// e", `{"a":[1e3,-0.0,true,{"b":"\ud83d\ude00"}]}`, "[[[[", "{a:1,a:2}", "\ufeff1", "'\\0'", "+.e", "{\\u0061:1}", "1//", "/*",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Column < 1 || syntax.Text == "" {
				t.Fatalf("%#v", err)
			}
			if json.Valid(data) && utf8.Valid(data) && !refusedJSON(syntax.Text) {
				t.Fatalf("JSON is refused: %v", err)
			}
			return
		}
		out := d.Root.JSON()
		var got, want any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q is written as %s: %v", data, out, err)
		}
		if json.Valid(data) {
			if err := json.Unmarshal(data, &want); err == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s is read as %s", data, out)
			}
		}
		again, err := Parse(out)
		if err != nil || !bytes.Equal(again.Root.JSON(), out) {
			t.Fatalf("%s is not read as it was written: %v", out, err)
		}
	})
}

// refusedJSON are the messages about what is JSON and refused all the same.
func refusedJSON(text string) bool {
	for _, part := range []string{"already", "surrogate", "too large", "more than"} {
		if bytes.Contains([]byte(text), []byte(part)) {
			return true
		}
	}
	return false
}

// What was set is found again, and everything else is as it was; what was added
// can be removed.
func FuzzEdit(f *testing.F) {
	for _, seed := range [][3]string{
		{"{a: 1}", "b.c", "[1]"}, {"{\n  a: 1, // x\n}", "b", "2 // y"}, {"[1, 2 /*x*/]", "[2]", "{}"}, {"{ // x\n}", "a", "1"}, {"{a:{}}", "a.b", "1"}, {"{\"a\":1}", `["x y"]`, "'z'"}, {"{a:[]}", "a[0]", "1"},
	} {
		f.Add([]byte(seed[0]), seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, data []byte, path, value string) {
		d, err := Parse(data)
		if err != nil {
			return
		}
		p, err := ParsePath(path)
		if err != nil {
			return
		}
		if back, err := ParsePath(p.String()); err != nil || !reflect.DeepEqual(back, p) {
			t.Fatalf("%q is written as %q: %v, %v", path, p, back, err)
		}
		text, err := d.Set(p, value)
		if err != nil {
			return
		}
		v, err := Parse([]byte(value))
		if err != nil {
			t.Fatalf("%q was set", value)
		}
		edited, err := Parse(text)
		if err != nil {
			if len(text) > MaxSize || len(p) > MaxDepth/2 {
				return
			}
			var syntax *SyntaxError
			if errors.As(err, &syntax) && bytes.Contains([]byte(syntax.Text), []byte("more than")) {
				return
			}
			t.Fatalf("%q with %s = %q is %q: %v", data, p, value, text, err)
		}
		found := edited.Root.Find(p)
		if found == nil || !bytes.Equal(found.JSON(), v.Root.JSON()) {
			t.Fatalf("%q with %s = %q is %q", data, p, value, text)
		}
		if len(p) == 0 {
			return
		}
		if was := d.Root.Find(p); was == nil {
			removed, err := edited.Remove(p)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Parse(removed)
			if err != nil || back.Root.Find(p) != nil {
				t.Fatalf("%q without %s is %q: %v", text, p, removed, err)
			}
			if len(p) == 1 && !bytes.Equal(back.Root.JSON(), d.Root.JSON()) {
				t.Fatalf("%q with and without %s is %q", data, p, removed)
			}
		}
	})
}
