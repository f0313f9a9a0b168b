package approval

import (
	"context"
	"testing"
	"time"

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

// A call that answers ends with its context, also while another answer is under way.
func TestAnswerEndsWithItsContext(t *testing.T) {
	under, release := make(chan struct{}), make(chan struct{})
	d := openDesk(t, t.TempDir(), func(o *Options) {
		o.Remember = func(context.Context, Record, []policy.Rule) error {
			close(under)
			<-release
			return nil
		}
	})
	slow, other := ask(t, d, request("x 1")), ask(t, d, request("x 2"))
	done := make(chan error, 1)
	go func() {
		_, err := d.Answer(t.Context(), slow.ID, Answer{Decision: AllowAlways})
		done <- err
	}()
	<-under
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := d.Answer(ctx, other.ID, Answer{Decision: Deny})
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it was answered")
		}
	case <-time.After(10 * time.Second):
		t.Error("the call goes on after its context has ended")
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
