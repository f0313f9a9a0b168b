package guard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

func TestServe(t *testing.T) {
	r := newRig(t, onHost)
	h := r.serve()
	allowed, refused := r.pending(corral.Command{ID: "one", Shell: "tool a"}), r.pending(corral.Command{ID: "two", Shell: "tool b"})
	r.answer(allowed, approval.AllowOnce)
	h.next()
	r.answer(refused, approval.Deny)
	h.next()
	ran, _, denials := h.got()
	if len(ran) != 1 || ran[0].ID != "one" || ran[0].Approval != allowed.ID || ran[0].Decided.Exec == nil {
		t.Errorf("%+v", ran)
	}
	if len(denials) != 1 || !strings.Contains(denials[0], `was answered deny by "alice"`) || h.attended[0] {
		t.Errorf("%q", denials)
	}
}

// With a restart before the answer, between the answer and the run, or after the run, the
// command runs once.
func TestRestarts(t *testing.T) {
	for _, v := range []approval.Verdict{approval.AllowOnce, approval.AllowAlways} {
		t.Run(string(v), func(t *testing.T) {
			r := newRig(t, onHost)
			rec := r.pending(corral.Command{ID: "one", Shell: "tool a", Timeout: time.Minute})
			r.again()
			r.answer(rec, v)
			r.again()
			h := r.serve()
			h.next()
			if ran, _, _ := h.got(); len(ran) != 1 || ran[0].ID != "one" || ran[0].Timeout != time.Minute {
				t.Fatalf("%+v", ran)
			}
			r.again()
			h = r.serve()
			h.next()
			if ran, resumed, denials := h.got(); len(ran) != 0 || resumed != 1 || len(denials) != 0 {
				t.Errorf("it runs again: %+v, %d, %q", ran, resumed, denials)
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	r := newRig(t, onHost)
	r.expiry = 50 * time.Millisecond
	r.again()
	h := r.serve()
	rec := r.pending(corral.Command{ID: "one", Shell: "tool"})
	h.next()
	if ran, _, denials := h.got(); len(ran) != 0 || len(denials) != 1 || !strings.HasSuffix(denials[0], "nobody had answered") {
		t.Errorf("%+v, %q", ran, denials)
	}
	if _, err := r.desk.Answer(t.Context(), rec.ID, approval.Answer{Decision: approval.AllowOnce}); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("it was answered: %v", err)
	}
	r.denied(corral.Command{ID: "one", Shell: "tool", Approval: rec.ID}, "it needs an approval, nobody answered in time, and askFallback is deny")
}

// A command that runs by askFallback runs once, even with restarts.
func TestFallback(t *testing.T) {
	r := newRig(t, `tools: {exec: {host: "gateway", security: "full", ask: "always", askFallback: "full"}}`)
	r.write("state/exec-approvals.json", `{"version": 1, "defaults": {"security": "full", "askFallback": "full"}}`)
	r.expiry = 50 * time.Millisecond
	r.again()
	h := r.serve()
	r.pending(corral.Command{ID: "one", Shell: "tool"})
	h.next()
	if ran, _, denials := h.got(); len(ran) != 1 || len(denials) != 0 {
		t.Errorf("%+v, %q", ran, denials)
	}
	r.again()
	h = r.serve()
	h.next()
	if ran, resumed, _ := h.got(); len(ran) != 0 || resumed != 1 {
		t.Errorf("it runs again: %+v, %d", ran, resumed)
	}
}

func TestDenyRuleWhilePending(t *testing.T) {
	r := newRig(t, onHost)
	h := r.serve()
	rec := r.pending(corral.Command{ID: "one", Shell: "tool a"})
	r.ok(r.file.Add("main", "", policy.Rule{Action: policy.Deny, Pattern: "tool a"}))
	r.answer(rec, approval.AllowOnce)
	h.next()
	if ran, _, denials := h.got(); len(ran) != 0 || len(denials) != 1 || !strings.Contains(denials[0], `deny rule "tool a"`) {
		t.Errorf("%+v, %q", ran, denials)
	}
}

func says(v approval.Verdict) func(context.Context, approval.Record) (approval.Answer, error) {
	return func(context.Context, approval.Record) (approval.Answer, error) {
		return approval.Answer{Decision: v, By: "bob"}, nil
	}
}

// A call that waits for its approval runs the command itself. Serve does not run it, then
// or later.
func TestAwait(t *testing.T) {
	r := newRig(t, onHost)
	h := r.serve()
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	run := func(rec approval.Record) error {
		cmd.Approval = rec.ID
		_, err := r.check(cmd)
		return err
	}
	rec, err := r.guard.Await(t.Context(), r.pending(cmd), says(approval.AllowOnce), run)
	if err != nil || rec.State != approval.Allowed || rec.AnsweredBy != "bob" {
		t.Fatalf("%+v, %v", rec, err)
	}
	// Allowed elsewhere: the question here ends. The unused approval is used up.
	cmd = corral.Command{ID: "two", Shell: "tool b"}
	asked, used := r.pending(cmd), false
	rec, err = r.guard.Await(t.Context(), asked, func(ctx context.Context, rec approval.Record) (approval.Answer, error) {
		r.answer(rec, approval.AllowOnce)
		<-ctx.Done()
		return approval.Answer{}, ctx.Err()
	}, func(approval.Record) error { used = true; return errors.New("cancelled") })
	if err == nil || err.Error() != "cancelled" || !used || rec.AnsweredBy != "alice" {
		t.Errorf("%+v, %v", rec, err)
	}
	if next := r.pending(corral.Command{ID: "three", Shell: "tool b"}); next.ID == asked.ID {
		t.Error("what a call did not use could be used by another")
	}
	// Denied.
	asked = r.pending(corral.Command{ID: "four", Shell: "tool c"})
	if rec, err = r.guard.Await(t.Context(), asked, says(approval.Deny), run); err != nil || rec.State != approval.Denied {
		t.Errorf("%+v, %v", rec, err)
	}
	for !slices.Contains(h.attendedNow(), true) {
		h.next()
	}
	// If approve fails, the approval stays pending, and the command runs in the background.
	asked = r.pending(corral.Command{ID: "five", Shell: "tool d"})
	nobody := errors.New("nobody is there")
	if rec, err = r.guard.Await(t.Context(), asked, func(context.Context, approval.Record) (approval.Answer, error) { return approval.Answer{}, nobody }, run); !errors.Is(err, nobody) || rec.State != approval.Pending {
		t.Errorf("%+v, %v", rec, err)
	}
	r.answer(asked, approval.AllowOnce)
	for ran, _, _ := h.got(); len(ran) == 0; ran, _, _ = h.got() {
		h.next()
	}
	ran, _, denials := h.got()
	if len(ran) != 1 || ran[0].ID != "five" || len(denials) != 1 || !slices.Equal(h.attendedNow(), []bool{true}) {
		t.Errorf("in the background: %+v, %q, %v", ran, denials, h.attended)
	}
}

func (h *record) attendedNow() []bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.attended)
}

// A command that a call has already run is not run again in the background.
func TestUsedOnce(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool"}
	rec := r.answer(r.pending(cmd), approval.AllowOnce)
	h := &record{rig: r, changed: make(chan struct{}, 10)}
	stale := rec
	cmd.Approval = rec.ID
	if _, err := r.check(cmd); err != nil {
		t.Fatal(err)
	}
	r.ok(r.guard.handleAnswer(t.Context(), stale, h, true)) // an old copy of the record
	ctx := context.WithValue(t.Context(), firstUse{}, true)
	if _, err := r.guard.For("main")(ctx, cmd, gateway); !errors.Is(err, errUsed) {
		t.Errorf("it is good once more: %v", err)
	}
	if ran, resumed, denials := h.got(); len(ran) != 0 || resumed != 0 || len(denials) != 0 {
		t.Errorf("%+v, %d, %q", ran, resumed, denials)
	}
}

// If many calls start the same command, and many answer, it runs once.
func TestConcurrently(t *testing.T) {
	r := newRig(t, onHost)
	h := r.serve()
	rec := r.pending(corral.Command{ID: "one", Shell: "tool"})
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 50 {
		wg.Go(func() {
			_, err := r.desk.Answer(r.Context(), rec.ID, approval.Answer{Decision: []approval.Verdict{approval.AllowOnce, approval.Deny}[i%2]})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, corral.ErrConflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h.next()
	if ran, _, denials := h.got(); won != 1 || len(ran)+len(denials) != 1 {
		t.Errorf("%d answers count; %+v, %q", won, ran, denials)
	}
}

// slowStart is a record whose command "slow" begins when it is let go.
type slowStart struct {
	*record
	begins, letGo chan struct{}
}

func (h slowStart) Run(ctx context.Context, rec approval.Record, cmd corral.Command) error {
	if cmd.ID == "slow" {
		h.begins <- struct{}{}
		<-h.letGo
	}
	return h.record.Run(ctx, rec, cmd)
}

// A command that does not begin, as on a node that hangs, delays those of its agent there,
// whose order stays, and no others.
func TestSlowStart(t *testing.T) {
	r := newRig(t, onHost)
	h := slowStart{&record{rig: r, changed: make(chan struct{}, 10)}, make(chan struct{}), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.guard.Serve(ctx, h) }()
	r.stop = func() { cancel(); <-done }

	first, second := r.pending(corral.Command{ID: "slow", Shell: "tool a"}), r.pending(corral.Command{ID: "after", Shell: "tool b"})
	_, err := r.guard.For("other")(t.Context(), corral.Command{ID: "else", Shell: "tool c"}, gateway)
	other, ok := approval.AsPending(err)
	if !ok {
		t.Fatal(err)
	}
	r.answer(first, approval.AllowOnce)
	<-h.begins
	r.answer(second, approval.AllowOnce)
	r.answer(other.Record, approval.AllowOnce)
	h.next()
	if ran, _, _ := h.got(); len(ran) != 1 || ran[0].ID != "else" {
		t.Errorf("%+v", ran)
	}
	close(h.letGo)
	h.next()
	h.next()
	if ran, _, _ := h.got(); len(ran) != 3 || ran[1].ID != "slow" || ran[2].ID != "after" {
		t.Errorf("%+v", ran)
	}
}
