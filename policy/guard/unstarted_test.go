package guard

import (
	"context"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// goesAway is a Handler whose executor cannot be reached any more, once the command has
// used its approval.
type goesAway struct{ *record }

func (h goesAway) Run(ctx context.Context, agent string, cmd corral.Command) error {
	if _, err := h.guard.For(agent)(ctx, cmd, gateway); err != nil {
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
