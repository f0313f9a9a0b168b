package tool

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

func ptr[T any](v T) *T { return &v }

func TestDecode(t *testing.T) {
	for _, tc := range []struct {
		name, json string
		want       ExecRequest
		warnings   []string
	}{
		{"nothing", ``, ExecRequest{}, nil},
		{"null", ` null `, ExecRequest{}, nil},
		{"null fields are absent", `{"command":"ls","yieldMs":null,"env":null}`, ExecRequest{Command: "ls"}, nil},
		{"as they are", `{"command":"ls","yieldMs":5,"timeout":1.5,"pty":true,"env":{"A":"b"}}`,
			ExecRequest{Command: "ls", YieldMs: ptr(5), Timeout: ptr(1.5), PTY: true, Env: map[string]string{"A": "b"}}, nil},
		{"numbers as strings", `{"yieldMs":" 5 ","timeout":"0.5","timeoutSeconds":"1e1"}`,
			ExecRequest{YieldMs: ptr(5), Timeout: ptr(0.5), TimeoutSeconds: ptr(10.0)}, nil},
		{"whole numbers with a fraction of nothing", `{"yieldMs":5.0}`, ExecRequest{YieldMs: ptr(5)}, nil},
		{"booleans as strings", `{"pty":"true","background":"FALSE","elevated":1}`, ExecRequest{PTY: true, Elevated: true}, nil},
		{"text as numbers and booleans", `{"command":"7","env":{"PORT":8080,"DEBUG":true}}`,
			ExecRequest{Command: "7", Env: map[string]string{"PORT": "8080", "DEBUG": "true"}}, nil},
		{"unknown fields", `{"command":"ls","session_id":"x","colour":"red"}`, ExecRequest{Command: "ls"}, []string{
			`The parameter "colour" is not known and is ignored.`,
			`The parameter "session_id" is not known and is ignored: did you mean "sessionId"?`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got ExecRequest
			warnings, err := Decode(json.RawMessage(tc.json), &got)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tc.warnings, warnings); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeList(t *testing.T) {
	for text, want := range map[string][]string{
		`{"keys":["C-c","Enter",7]}`: {"C-c", "Enter", "7"},
		`{"keys":"Enter"}`:           {"Enter"},
		`{"keys":[]}`:                {},
	} {
		var got ProcessRequest
		if _, err := Decode(json.RawMessage(text), &got); err != nil {
			t.Error(text, err)
		}
		if d := cmp.Diff(want, got.Keys); d != "" {
			t.Error(text, d)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct{ json, text, hint string }{
		{`[1]`, `the arguments are [1], not an object`, "JSON object"},
		{`{"command":`, `the arguments are not JSON: unexpected EOF`, "JSON object"},
		{`{} {}`, `the arguments go on after their end`, "one JSON object"},
		{`{"command":{"a":1}}`, `command: {"a":1} does not fit`, "give a string"},
		{`{"command":1}`, `command: 1 does not fit`, "give a string"},
		{`{"command":true}`, `command: true does not fit`, "give a string"},
		{`{"command":"ls","command":"rm x"}`, `the key "command" is given twice`, "each key once"},
		{`{"command":"ls","env":{"A":"1","A":"2"}}`, `the key "env.A" is given twice`, "each key once"},
		{`{"command":"ls","\u0063ommand":"rm x"}`, `the key "command" is given twice`, "each key once"},
		{`{"yieldMs":"soon"}`, `yieldMs: "soon" does not fit`, "give a whole number"},
		{`{"yieldMs":1.5}`, `yieldMs: 1.5 does not fit`, "give a whole number"},
		{`{"yieldMs":1e300}`, `yieldMs: 1e300 does not fit`, "give a whole number"},
		{`{"timeout":"NaN"}`, `timeout: "NaN" does not fit`, "give a number"},
		{`{"timeout":[]}`, `timeout: [] does not fit`, "give a number"},
		{`{"pty":"maybe"}`, `pty: "maybe" does not fit`, "give true or false"},
		{`{"env":["A=b"]}`, `env: ["A=b"] does not fit`, "give an object of strings"},
		{`{"env":{"A":null}}`, `env.A: null does not fit`, "give a string"},
		{`{"command":["` + strings.Repeat("x", 200) + `"]}`, `command: ["` + strings.Repeat("x", 58) + `… does not fit`, "give a string"},
		{`{"command":"` + strings.Repeat("x", MaxArguments) + `"}`, "the arguments have 4194318 bytes, more than 4194304", "in a file"},
	} {
		_, err := Decode(json.RawMessage(tc.json), &ExecRequest{})
		if !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), tc.text) || !strings.Contains(corral.Hint(err), tc.hint) {
			t.Errorf("%.60s: %v (hint: %s); want %q (%q)", tc.json, err, corral.Hint(err), tc.text, tc.hint)
		}
	}
}

func TestDecodeBoundsWarnings(t *testing.T) {
	fields := map[string]int{}
	for i := range 100 {
		fields[strings.Repeat("x", 100+i)] = i
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	warnings, err := Decode(raw, &ExecRequest{})
	if err != nil || len(warnings) != maxUnknown+1 || !strings.HasPrefix(warnings[maxUnknown], "90 more") {
		t.Errorf("%d warnings, the last: %q; %v", len(warnings), warnings[len(warnings)-1], err)
	}
}

// FuzzDecode: any input is a request or an ErrInvalid, and the JSON of a request decodes
// to the same request.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `[]`, `{"command":"ls","yieldMs":"5","timeout":"0.5","pty":"true"}`,
		`{"action":"send-keys","sessionId":"x","keys":["C-c",1],"hex":"1b","literal":true}`,
		`{"env":{"A":1},"unknown":{"a":[1,2,{"b":null}]}}`, `{"command":"\ud800"}`, "{\"command\":\"\xff\"}", `{"command":1}{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		check(t, raw, &ExecRequest{}, &ExecRequest{})
		check(t, raw, &ProcessRequest{}, &ProcessRequest{})
	})
}

func check(t *testing.T, raw []byte, first, second any) {
	warnings, err := Decode(raw, first)
	if err != nil {
		if !errors.Is(err, corral.ErrInvalid) || len(err.Error()) > 1000 {
			t.Fatalf("%q", err)
		}
		return
	}
	if len(warnings) > maxUnknown+1 {
		t.Fatalf("%d warnings", len(warnings))
	}
	again, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(again, second); err != nil {
		t.Fatalf("%s: %v", again, err)
	}
	repeated, err := json.Marshal(second)
	if err != nil || string(repeated) != string(again) {
		t.Fatalf("%s became %s (%v)", again, repeated, err)
	}
}
