// Package leftover ends what a command has left of its process tree when the tree was told to
// end and the command itself has done so: a server whose shell is gone may still be writing
// its data down, and a process that ignores SIGTERM would stay for ever.
package leftover

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
)

const (
	firstPause = 5 * time.Millisecond
	mostPause  = 100 * time.Millisecond
)

// End waits until nothing is left of p, whose whole tree was sent SIGTERM, and kills what is
// left after grace.
func End(ctx context.Context, p corral.Process, grace time.Duration) error {
	end := time.Now().Add(grace)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		// To a process that runs SIGCONT is nothing, and one that was stopped hears its SIGTERM.
		if err := p.Signal(ctx, corral.SIGCONT); err != nil {
			return unlessEnded(err)
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return unlessEnded(p.Signal(ctx, corral.SIGKILL))
}

func unlessEnded(err error) error {
	if errors.Is(err, corral.ErrEnded) {
		return nil
	}
	return err
}
