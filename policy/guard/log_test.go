package guard

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// The log has the decision on each command, but not the text of the command.
func TestLog(t *testing.T) {
	r := newRig(t, onHost)
	var log bytes.Buffer
	r.log = slog.New(slog.NewTextHandler(&log, nil))
	r.again()
	said := func(want ...string) {
		t.Helper()
		text := log.String()
		log.Reset()
		for _, w := range append(want, "a command was decided on", "agent=main", "host=gateway") {
			if !strings.Contains(text, w) {
				t.Errorf("the log does not say %q: %s", w, text)
			}
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("the log has what the command says: %s", text)
		}
	}
	cmd := corral.Command{ID: "one", Shell: "tool hunter2"}
	rec := r.pending(cmd)
	said("session=one", "decision=ask", "approval="+rec.ID)
	r.answer(rec, approval.AllowOnce)
	cmd.Approval = rec.ID
	if _, err := r.check(cmd); err != nil {
		t.Fatal(err)
	}
	said("session=one", "decision=allow", "approval="+rec.ID)
	r.ok(r.file.Add("*", "", policy.Rule{Action: policy.Deny, Pattern: "tool"}))
	r.denied(corral.Command{ID: "two", Shell: "tool hunter2"}, "")
	said("session=two", "decision=deny", "rule=tool")
}
