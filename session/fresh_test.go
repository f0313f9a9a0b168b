package session

import (
	"context"
	"slices"
	"testing"

	"github.com/corral-exec/corral"
)

// started notes which IDs it is told are fresh.
type started struct {
	corral.Executor
	fresh []bool
}

func (x *started) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	x.fresh = append(x.fresh, cmd.Decided.Fresh)
	return x.Executor.Start(ctx, cmd)
}

// Only an ID that a session makes up is sure to be new: one that a caller chose may have
// been sent before.
func TestOnlyWhatIsMadeUpIsFresh(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := &started{Executor: r.x}
		r.m.cfg.Executor = func(context.Context, string) (corral.Executor, error) { return x, nil }
		r.begin("true", Options{})
		r.begin("true", Options{Command: corral.Command{ID: "mine"}})
		if want := []bool{true, false}; !slices.Equal(x.fresh, want) {
			r.Errorf("fresh: %v, want %v", x.fresh, want)
		}
	})
}
