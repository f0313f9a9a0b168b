package wardenexec

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
)

// late is when an answer is late enough to ask whether the place is frozen. It may be for a
// moment, as while its files are copied. A variable for tests.
var late = 3 * time.Second

// frozen is the end of a wait for an answer that does not come.
type frozen struct{ error }

// unlessFrozen is a context that ends as well when the place turns out to be frozen.
func (e *Executor) unlessFrozen(ctx context.Context) (waiting context.Context, done func()) {
	if e.opts.Frozen == nil {
		return ctx, func() {}
	}
	waiting, end := context.WithCancelCause(ctx)
	ask, every := e.opts.Frozen, late
	asking := time.AfterFunc(every, func() {
		for waiting.Err() == nil {
			if err := ask(waiting); err != nil {
				end(frozen{err})
			}
			select {
			case <-time.After(every):
			case <-waiting.Done():
			}
		}
	})
	return waiting, func() {
		asking.Stop()
		end(nil)
	}
}

// whyFrozen is the error of a wait, or if that ended since the place is frozen, that.
func whyFrozen(waiting context.Context, err error) error {
	var f frozen
	switch {
	case err == nil || !errors.As(context.Cause(waiting), &f):
		return err
	case errors.Is(err, corral.ErrLost):
		return corral.Errorf(corral.ErrLost, corral.Hint(f.error), "the command may be started when that ends: %w", f.error)
	}
	return f.error
}
