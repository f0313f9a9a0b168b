package strictjson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

type inner struct {
	A int `json:"a"`
}

type outer struct {
	inner
	B    string            `json:"b,omitempty"`
	Env  map[string]string `json:"env"`
	List []inner           `json:"list"`
	At   *inner            `json:"at"`
	Raw  json.RawMessage   `json:"raw"`
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":"x","env":{"x":"1","X":"2"},"list":[{"a":1},{"a":2}],"at":{"a":3},"raw":{"z":1}}`: "",
		`{"a":1,"a":1}`:             `the key "a" is given twice`,
		`{"b":"x","B":"y"}`:         `the key "B" is not known`,
		`{"c":1}`:                   `the key "c" is not known`,
		`{"b":1}`:                   `the key "b" cannot be a number`,
		`{"env":{"x":"1","x":"2"}}`: `the key "env.x" is given twice`,
		`{"list":[{"a":1,"a":2}]}`:  `the key "list.a" is given twice`,
		`{"at":{"A":1}}`:            `the key "at.A" is not known`,
		`{"raw":{"z":1,"z":2}}`:     `the key "raw.z" is given twice`,
		`{"b":"x"} {}`:              "after the JSON value",
		`{"b":"x"`:                  "unexpected EOF",
		``:                          "unexpected EOF",
		`{"raw":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`: "nested more than",
	} {
		var o outer
		err := Decode([]byte(text), &o)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

// What is decoded is what encoding/json decodes, where nothing is refused.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":"x","env":{"x":"1"},"list":[{"a":1}],"at":{"a":3},"raw":[1,{"k":null}]}`))
	f.Add([]byte(`{"a":1,"a":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o, plain outer
		if Decode(data, &o) != nil {
			return
		}
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		if err := Check(data); err != nil {
			t.Errorf("%q: %v", data, err)
		}
	})
}

// The path of a key is for errors: a long one costs nothing for each key below it.
func TestLongKeys(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"` + strings.Repeat("k", 1<<20) + `":{"0":0`)
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	b.WriteString("}}")
	text := []byte(b.String())
	began := time.Now()
	if err := Check(text); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second { // 200 GB would be copied
		t.Errorf("it took %v", took)
	}
}
