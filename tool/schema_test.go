package tool

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

func resolved(t *testing.T, s *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	r, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func valid(t *testing.T, s *jsonschema.Resolved, value any) error {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var instance any
	if err := json.Unmarshal(text, &instance); err != nil {
		t.Fatal(err)
	}
	return s.Validate(instance)
}

func TestInputSchemas(t *testing.T) {
	defs := New(Config{Defaults: Defaults{Timeout: time.Minute, Yield: time.Second, Host: corral.HostNode, NotifyOnExit: ptr(false)}}).Definitions()
	for _, d := range defs {
		r := resolved(t, d.Input)
		for name, p := range d.Input.Properties {
			if p.Description == "" || strings.HasPrefix(p.Type, "n") && p.Type != "number" {
				t.Errorf("%s.%s has no description, or the type %q", d.Name, name, p.Type)
			}
		}
		if err := valid(t, r, map[string]any{}); err == nil {
			t.Errorf("%s: nothing is enough", d.Name)
		}
	}
	in := defs[0].Input
	for name, want := range map[string]string{
		"timeout": "60", "yieldMs": "1000", "background": "false", "pty": "false", "host": `"node"`, "notifyOnExit": "false", "security": "",
	} {
		if got := string(in.Properties[name].Default); got != want {
			t.Errorf("the default of %s is %s, want %s", name, got, want)
		}
	}
	r := resolved(t, in)
	for text, ok := range map[string]bool{
		`{"command":"ls"}`:                        true,
		`{"command":"ls","whatever":1}`:           true,
		`{"command":""}`:                          false,
		`{"command":"ls","host":"mars"}`:          false,
		`{"command":"ls","ask":"on-miss"}`:        true,
		`{"command":"ls","yieldMs":5}`:            false,
		`{"command":"ls","timeout":0.5}`:          true,
		`{"command":"ls","env":{"A":1}}`:          false,
		`{"command":"ls","sessionId":"my.build"}`: true,
	} {
		if err := valid(t, r, json.RawMessage(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Every shape of a result is valid by its schema, and keeps its fields.
func TestOutputSchemas(t *testing.T) {
	defs := New(Config{}).Definitions()
	exec, process := resolved(t, defs[0].Output), resolved(t, defs[1].Output)
	now := time.Now()
	for name, r := range map[string]ExecResult{
		"completed": {Status: StatusCompleted, Ended: &Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}}, Warnings: []string{}},
		"signalled": {Status: StatusCompleted, Ended: &Ended{ExitStatus: corral.ExitStatus{Signal: ptr(9), SignalName: ptr("SIGKILL")}}, Warnings: []string{"x"}},
		"running":   {Status: StatusRunning, SessionID: "x", Running: &Running{PID: 1, StartedAt: now}, Warnings: []string{}},
		"failed":    {Status: StatusFailed, Reason: ReasonTimeout, Error: "x", Ended: &Ended{}, Warnings: []string{}},
		"pending":   {Status: StatusApprovalPending, Approval: &Approval{AllowedDecisions: []approval.Verdict{"deny"}}, Warnings: []string{}},
		"denied":    {Status: StatusDenied, Reason: ReasonDenied, Denial: &Denial{Rule: "x"}, Warnings: []string{}},
	} {
		if err := valid(t, exec, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back ExecResult
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(back); err != nil || string(again) != string(text) {
			t.Errorf("%s became %s (%v)", text, again, err)
		}
	}
	for name, r := range map[string]ProcessResult{
		"list":   {Action: ActionList, Status: StatusCompleted, SessionList: &SessionList{Sessions: []SessionEntry{{Status: StatusRunning}}}, Warnings: []string{}},
		"poll":   {Action: ActionPoll, Status: StatusRunning, SessionOutput: &SessionOutput{RetryInMs: 5000}, Warnings: []string{}},
		"ended":  {Action: ActionPoll, Status: StatusCompleted, SessionOutput: &SessionOutput{}, SessionEnd: &SessionEnd{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}}, Warnings: []string{}},
		"log":    {Action: ActionLog, Status: StatusRunning, SessionOutput: &SessionOutput{}, LogPage: &LogPage{}, Warnings: []string{}},
		"wait":   {Action: ActionWait, Status: StatusRunning, SessionOutput: &SessionOutput{}, WaitEnd: &WaitEnd{}, Warnings: []string{}},
		"attach": {Action: ActionAttach, Status: StatusRunning, Stream: &Stream{Path: "/x"}, Warnings: []string{}},
		"write":  {Action: ActionWrite, Status: StatusRunning, BytesWritten: ptr(1), Warnings: []string{}},
	} {
		if err := valid(t, process, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := valid(t, exec, map[string]any{"status": "done"}); err == nil {
		t.Error("the schema of exec's results takes anything")
	}
}

// Fields of embedded shapes that have the same name in JSON at the same depth
// would all be missing.
func TestShapesDoNotHideEachOther(t *testing.T) {
	for _, v := range []any{ExecResult{}, ProcessResult{}} {
		seen := map[string]string{}
		for i := range reflect.TypeOf(v).NumField() {
			f := reflect.TypeOf(v).Field(i)
			fields := []reflect.StructField{f}
			if f.Anonymous {
				fields = reflect.VisibleFields(f.Type.Elem())
			}
			for _, f := range fields {
				if f.IsExported() && seen[jsonName(f)] != "" {
					t.Errorf("%T: %s and %s are both %q", v, seen[jsonName(f)], f.Name, jsonName(f))
				}
				seen[jsonName(f)] = f.Name
			}
		}
	}
}
