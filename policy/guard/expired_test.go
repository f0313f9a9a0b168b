package guard

import (
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// An approval that nobody gave in time lets askFallback decide on the command that was
// asked about, and on no other: people have not had the time to deny that.
func TestFallbackOfAnotherCommand(t *testing.T) {
	r := newRig(t, `tools: {exec: {host: "gateway", security: "full", ask: "always", askFallback: "full"}}`)
	r.write("state/exec-approvals.json", `{"version": 1, "defaults": {"security": "full", "askFallback": "full"}}`)
	r.expiry = 50 * time.Millisecond
	rec := r.pending(corral.Command{ID: "one", Shell: "tool a"})
	if now, err := r.desk.Wait(t.Context(), rec.ID); err != nil || now.State != approval.Expired {
		t.Fatalf("%+v, %v", now, err)
	}
	r.denied(corral.Command{ID: "two", Shell: "tool b", Approval: rec.ID}, "the command is not the one that was approved")
	r.denied(corral.Command{ID: "two", Shell: "tool a", Dir: r.at("bin"), Approval: rec.ID}, "the working directory is")
	if _, err := r.check(corral.Command{ID: "one", Shell: "tool a", Approval: rec.ID}); err != nil {
		t.Error(err)
	}
}
