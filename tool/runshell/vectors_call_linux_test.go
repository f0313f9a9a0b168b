package runshell

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/fakeexec"
)

func deny(context.Context, Request) (Answer, error) { return DenyOnce, nil }

// anything is an executor on which every command succeeds.
func anything(t *testing.T, commands ...string) *fakeexec.Executor {
	t.Helper()
	ex := &fakeexec.Executor{Programs: map[string]fakeexec.Program{}}
	for _, c := range commands {
		ex.Programs["bash -c "+c] = func(*fakeexec.IO) int { return 0 }
	}
	t.Cleanup(func() { ex.Close() })
	return ex
}

func checkConfirmation(t *testing.T, v vector) string {
	var in struct {
		Always string `json:"approved_always"`
		Next   string
	}
	v.input(t, &in)
	var asked []Request
	tool := newTool(t, Config{Executor: anything(t, in.Always, in.Next), CoreTools: entries([]string{"nothing"}), Approve: func(_ context.Context, r Request) (Answer, error) {
		asked = append(asked, r)
		return AllowAlways, nil
	}})
	for _, c := range []string{in.Always, in.Next} {
		if _, err := tool.Run(t.Context(), Input{Command: c}); err != nil {
			return err.Error()
		}
	}
	var again bool
	var root string
	if v.answer(t, "prompts_again", &again) && again != (len(asked) == 2) {
		return "it was not asked about"
	}
	if v.answer(t, "rootCommand", &root) && strings.Join(asked[1].Programs, ", ") != root {
		return strings.Join(asked[1].Programs, ", ")
	}
	return ""
}

// arguments are the arguments of the vector. In its tool only the profile decides whether
// is_background is required.
func (v vector) arguments(t *testing.T) json.RawMessage {
	t.Helper()
	var in map[string]any
	v.input(t, &in)
	if in["is_background"] == nil {
		in["is_background"] = false
	}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func checkValidation(t *testing.T, v vector) string {
	tool := newTool(t, Config{Executor: anything(t, v.command(t))})
	in, _, err := tool.Parse(v.arguments(t))
	if err == nil {
		_, err = tool.Run(t.Context(), in)
	}
	var want string
	if v.answer(t, "error", &want) && v.Want == nil {
		if err == nil || strings.TrimPrefix(err.Error(), "invalid input: ") != want {
			return errorText(err)
		}
		return ""
	}
	var coerced, ok bool
	if v.answer(t, "ok", &ok) && ok != (err == nil) {
		return errorText(err)
	}
	if err != nil || v.answer(t, "coerced", &coerced) && in.IsBackground != coerced {
		return errorText(err)
	}
	return ""
}

func errorText(err error) string {
	if err == nil {
		return "there is no error"
	}
	return err.Error()
}

func checkDescription(t *testing.T, v vector) string {
	in, _, err := newTool(t, Config{}).Parse(v.arguments(t))
	if err != nil {
		return err.Error()
	}
	var text, contains string
	if v.answer(t, "text", &text) && in.Display() != text || v.answer(t, "contains", &contains) && !strings.Contains(in.Display(), contains) {
		return in.Display()
	}
	return ""
}
