package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

func roundTrip(t testing.TB, cmd corral.Command) corral.Command {
	t.Helper()
	wire, err := json.Marshal(NewStart(cmd, true))
	if err != nil {
		t.Fatal(err)
	}
	var s Start
	if err := json.Unmarshal(wire, &s); err != nil {
		t.Fatalf("%s: %v", wire, err)
	}
	got, err := s.Decode()
	if err != nil || !s.NotifyOnExit {
		t.Fatalf("%s: %v", wire, err)
	}
	return got
}

// No field of a command is left out, and none changed.
func TestStart(t *testing.T) {
	full := corral.Command{
		ID: "id", Shell: "echo é", Args: []string{"a", "", "b"}, Dir: "/d", Env: map[string]string{"A": "1", "B": ""}, PathPrepend: []string{"/p"},
		Stdin: true, TTY: &corral.Size{Rows: 1, Cols: 2}, MergeStderr: true, Timeout: 1500 * time.Millisecond, Grace: -1,
		Log: corral.LogLimit{Head: 1, Tail: 2}, Host: corral.HostNode, Node: "n", Elevated: true, Security: "full", Ask: "off", Approval: "a", Description: "d",
	}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if v.Field(i).IsZero() && f.Tag.Get("json") != "-" { // those no client may set
			t.Errorf("the test does not set %s", f.Name)
		}
	}
	binary := corral.Command{Shell: "\xff", Args: []string{"\xfe", "", "x"}, Dir: "\xfd", Env: map[string]string{"K": "\xfc", "\xfb": "=a=b"}, PathPrepend: []string{"\xfa"}}
	for _, cmd := range []corral.Command{{}, full, binary, {Args: []string{"only", "\xff"}}} {
		if diff := cmp.Diff(cmd, roundTrip(t, cmd)); diff != "" {
			t.Errorf("-sent +received\n%s", diff)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{`"90s"`: 90 * time.Second, `90`: 90 * time.Second, `1.5`: 1500 * time.Millisecond, `"1.5"`: 1500 * time.Millisecond, `"-1ns"`: -1, `0`: 0} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %v, %v", text, time.Duration(d), err)
		}
	}
	for _, text := range []string{`"soon"`, `1e9`, `"NaN"`, `"Inf"`, `-1e300`, `{}`, `null`, `""`, `true`} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s is %v", text, time.Duration(d))
		}
	}
}

// FuzzStart decodes what a client may send; what it decodes to can be sent
// again.
func FuzzStart(f *testing.F) {
	f.Add([]byte(`{"command":"x","timeout":"1s"}`))
	f.Add([]byte(`{"binary":{"args":["/w=="],"env":["QT1i"]}}`))
	f.Add([]byte(`{"binary":{"env":["QQ=="]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s Start
		if json.Unmarshal(body, &s) != nil {
			return
		}
		cmd, err := s.Decode()
		if err != nil || cmd.Validate() != nil {
			return
		}
		if got := roundTrip(t, cmd); got.Digest() != cmd.Digest() || got.ID != cmd.ID {
			t.Errorf("%+v came out as %+v", cmd, got)
		}
	})
}
