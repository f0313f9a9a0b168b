package cli

import (
	"strings"
	"testing"
)

func TestSandboxPause(t *testing.T) {
	for _, tc := range []struct {
		args         []string
		code         int
		out, outcome string
	}{
		{[]string{"pause", "chat"}, 0, "chat\n", "pause chat"},
		{[]string{"pause", "--all"}, 0, "chat\nold\n", "pause chat, pause old"},
		{[]string{"resume", "chat", "--json"}, 0, `{"sandboxes":["chat"]}`, "resume chat"},
		{[]string{"resume", "--all"}, 0, "", ""},
		{[]string{"pause"}, 2, "", ""},
		{[]string{"resume", "--all", "chat"}, 2, "", ""},
	} {
		m := storedMachine()
		state := stored(t, storedSandboxes)
		code, stdout, stderr := m.run(t, nil, append([]string{"sandbox", tc.args[0], "--state-dir", state}, tc.args[1:]...)...)
		if got := strings.Join(m.eng.frozen, ", "); code != tc.code || !strings.HasPrefix(stdout, tc.out) || got != tc.outcome {
			t.Errorf("%v: %d, %q, %q: %s", tc.args, code, stdout, got, stderr)
		}
	}
}
