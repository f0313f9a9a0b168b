package approval

import (
	"context"
	"testing"

	"github.com/corral-exec/corral/policy"
)

// An answer counts although the agent asks again meanwhile, and by then for another reason.
func TestAnswerWhileAskedAgain(t *testing.T) {
	req := request("git push")
	var d *Desk
	d = openDesk(t, t.TempDir(), func(o *Options) {
		o.Remember = func(ctx context.Context, _ Record, _ []policy.Rule) error {
			again := req
			again.Decision.Reason = "another rule asks by now"
			_, err := d.Ask(ctx, again)
			return err
		}
	})
	r := ask(t, d, req)
	now, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways, By: "anna"})
	if err != nil || now.State != Allowed || now.Verdict != AllowAlways || now.Decision.Reason != "another rule asks by now" {
		t.Errorf("%s, %s, %q, %v", now.State, now.Verdict, now.Decision.Reason, err)
	}
}
