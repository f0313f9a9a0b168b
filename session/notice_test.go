package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
)

// Once a session, however many lives it has: what needed an approval and goes on
// for a while is said to run, and what is over by then is not.
func TestRunningNotice(t *testing.T) {
	inBubble(t, func(r *rig) {
		begin := func(id, shell string) {
			r.Helper()
			_, err := r.m.Agent("main").Begin(r.Context(), Options{
				Command: corral.Command{ID: id, Shell: shell, Approval: "abc"}, Background: true, RunningNotice: 10 * time.Second,
			})
			r.ok(err)
		}
		begin("long", "work")
		begin("short", "true")
		time.Sleep(5 * time.Second)
		r.reopen()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		r.ok(r.m.Announce(Event{Type: EventDenied, Agent: "main", Approval: "def", Text: "Exec denied"}))
		r.reopen()
		r.ok(r.m.Announce(Event{Type: EventDenied, Agent: "main", Approval: "def", Text: "Exec denied"}))
		time.Sleep(10 * time.Second)
		got, err := r.m.Events(r.Context(), "main", 0)
		r.ok(err)
		if len(got.Events) != 2 {
			t.Fatalf("events %+v", got.Events)
		}
		if e := got.Events[0]; e.Type != EventRunning || e.SessionID != "long" || e.Approval != "abc" || e.State != Running || e.Text != "Exec running (long, >10s)" {
			t.Errorf("the first is %+v", e)
		}
		if e := got.Events[1]; e.Type != EventDenied || e.Approval != "def" || e.Seq != 2 || e.Time.IsZero() {
			t.Errorf("the second is %+v", e)
		}
	})
}
