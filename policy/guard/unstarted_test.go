package guard

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// goesAway is a Handler whose executor cannot be reached any more, once the command has
// used its approval.
type goesAway struct{ *record }

func (h goesAway) Run(ctx context.Context, rec approval.Record, cmd corral.Command) error {
	if _, err := h.guard.For(rec.Agent)(ctx, cmd, gateway); err != nil {
		return err
	}
	return corral.Errorf(corral.ErrUnavailable, "", "the machine went away")
}

// The agent is told that a command did not start, also if it had used its approval by then.
func TestUsedAndNotStarted(t *testing.T) {
	r := newRig(t, onHost)
	h := goesAway{&record{rig: r, changed: make(chan struct{}, 10)}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.guard.Serve(ctx, h) }()
	r.stop = func() { cancel(); <-done }
	r.answer(r.pending(corral.Command{ID: "one", Shell: "tool"}), approval.AllowOnce)
	h.next()
	if _, _, denials := h.got(); len(denials) != 1 || !strings.Contains(denials[0], "the machine went away") {
		t.Errorf("%q", denials)
	}
}

// What a call did not use is used up, also if there is nothing to run by it later.
func TestAwaitWithoutNote(t *testing.T) {
	r := newRig(t, onHost)
	req := approval.Request{Agent: "main", Host: corral.HostGateway}
	req.Command.Command, req.Command.Dir = "tool", r.at("work")
	var err error
	req.Binding, err = approval.Bind(req.Command, req.Decision, nil, r.guard.cfg.View)
	r.ok(err)
	rec, err := r.desk.Ask(t.Context(), req)
	r.ok(err)
	cancelled := errors.New("cancelled")
	if _, err := r.guard.Await(t.Context(), rec, says(approval.AllowOnce), func(approval.Record) error { return cancelled }); !errors.Is(err, cancelled) {
		t.Error(err)
	}
	if now, err := r.desk.Get("main", rec.ID); err != nil || now.State != approval.Consumed {
		t.Errorf("%s, %v", now.State, err)
	}
}
