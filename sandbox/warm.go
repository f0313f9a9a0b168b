package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
)

// Warm has a container ready: the one that the next command would go to.
func (e *Executor) Warm(ctx context.Context) error {
	b, _, err := e.enter(ctx, corral.Command{Args: []string{":"}})
	if b != nil {
		e.leave(b, "")
	}
	return err
}

// EndAfter has the container that commands go to now end some time from now, with all
// that runs in it, also if this program does not run then; 0: it does not end by itself.
// The time that was said last counts. ErrNotFound: no container runs. ErrUnsupported:
// with the driver exec, or a container of an earlier version.
func (e *Executor) EndAfter(ctx context.Context, after time.Duration) error {
	if err := e.openAll(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	b := e.current
	if b == nil {
		b = e.boxes[e.last]
	}
	if b != nil && b.dead {
		b = nil
	}
	if b != nil {
		b.hold("")
	}
	e.mu.Unlock()
	if b == nil {
		return corral.Errorf(corral.ErrNotFound, "", "no container of the sandbox %s runs", e.name)
	}
	defer e.leave(b, "")
	if b.warden == nil {
		return corral.Errorf(errors.ErrUnsupported, "use the driver auto", "the sandbox %s does not end by itself: it has no warden", e.name)
	}
	return b.warden.EndAfter(ctx, after)
}
