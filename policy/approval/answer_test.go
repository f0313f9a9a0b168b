package approval

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// A letter of a program that was killed is not an answer hours later, when a desk is there
// again: its author was never told that it counts, and may have thought better of it.
func TestOldLetter(t *testing.T) {
	dir := t.TempDir()
	d := openDesk(t, dir)
	r := ask(t, d, request("x y"))
	box := filepath.Join(dir, mailName)
	ok(t, os.Mkdir(box, 0o700))
	letter := filepath.Join(box, "a"+letterTail)
	ok(t, os.WriteFile(letter, fmt.Appendf(nil, `{"id": %q, "decision": "allow-once"}`, r.ID), 0o600))
	old := time.Now().Add(-2 * mailAge)
	ok(t, os.Chtimes(letter, old, old))
	ok(t, d.collect(t.Context(), box, time.Now()))
	if now, err := d.Get("", r.ID); err != nil || now.State != Pending {
		t.Errorf("%s, %v", now.State, err)
	}
	if _, err := os.Stat(letter); !os.IsNotExist(err) {
		t.Errorf("the letter is still there: %v", err)
	}
}
