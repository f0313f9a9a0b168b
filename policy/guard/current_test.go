package guard

import (
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A pending record says why it needs an approval now, not why it did earlier.
func TestCurrent(t *testing.T) {
	r := newRig(t, onHost)
	r.program("bin/other", "")
	asked := r.pending(corral.Command{Shell: "tool | other", Dir: r.at("work")})
	withEnv := r.pending(corral.Command{Shell: "tool", Dir: r.at("work"), Env: map[string]string{"ZIP": "x"}})
	reason := func(rec approval.Record) string {
		t.Helper()
		list := r.guard.Current(t.Context(), []approval.Record{rec})
		return string(list[0].Decision.Outcome) + ": " + list[0].Decision.Reason
	}
	for _, step := range []struct {
		does func() error
		want string
	}{
		{func() error { return nil }, "ask: \"tool\": no rule allows "},
		{func() error {
			return r.file.Add("main", "", policy.Rule{Action: policy.Allow, Pattern: r.at("bin/tool")})
		}, "ask: \"other\": no rule allows "},
		{func() error {
			return r.file.Add("main", "", policy.Rule{Action: policy.Allow, Pattern: r.at("bin/other")})
		}, "allow: asked again it would run by itself: "},
		{func() error { return r.file.Add("main", "", policy.Rule{Action: policy.Deny, Pattern: "other"}) }, "deny: asked again it would be denied: deny rule "},
	} {
		r.ok(step.does())
		if got := reason(asked); !strings.HasPrefix(got, step.want) {
			t.Errorf("%q, want %q…", got, step.want)
		}
	}
	if now, err := r.desk.Get("", asked.ID); err != nil || now.Decision.Reason != asked.Decision.Reason || now.Seq != asked.Seq {
		t.Errorf("the desk has %q (%v): listing changed it", now.Decision.Reason, err)
	}
	if got := reason(withEnv); !strings.Contains(got, "ZIP") {
		t.Errorf("with a variable: %q", got)
	}

	// A record that cannot be decided anew stays as it is.
	for what, rec := range map[string]approval.Record{
		"settled": {State: approval.Denied, Note: asked.Note}, "another gateway's": {State: approval.Pending, Gateway: "b", Note: asked.Note},
		"without a note": {State: approval.Pending}, "of an older version": {State: approval.Pending, Note: []byte(`{"command":{}}`)},
	} {
		rec.Agent, rec.Decision.Reason = "main", "as it was"
		if got := reason(rec); !strings.HasSuffix(got, ": as it was") {
			t.Errorf("%s: %q", what, got)
		}
	}
	r.close()
	r.open() // the environment is lost by that
	if got := reason(withEnv); got != "ask: "+withEnv.Decision.Reason {
		t.Errorf("without its environment: %q", got)
	}
}
