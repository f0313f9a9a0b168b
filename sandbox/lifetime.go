package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// LifetimeGrace is how long commands may go on in a container whose lifetime is
// over.
const LifetimeGrace = 5 * time.Minute

// outlived reports whether commands do not go any more to a container that the
// sandbox has since then.
func (s *setup) outlived(since time.Time) bool {
	return s.Lifetime > 0 && time.Since(since) > s.Lifetime
}

// endLife removes the container of a box that was not left in time, which nothing
// inside can prevent. Its commands are lost, and a caller that waits for one, now or
// in a later life, is told the reason.
func (e *Executor) endLife(ctx context.Context, b *box, lifetime time.Duration) error {
	if _, err := b.Inspect(ctx, e.engine); errors.Is(err, errOther) {
		return err
	}
	running, err := b.settle(ctx) // those that no caller waits for have the reason, too
	e.log.Warn("ending what runs in a container whose lifetime is over", "name", e.name, "container", b.Container, "lifetime", lifetime, "running", running, "error", err)
	why := fmt.Sprintf("the sandbox's lifetime of %v was over (sandbox.lifetime)", lifetime)
	if err := noteEnd(b.dir, endByRemoval(why)); err != nil {
		return err
	}
	e.retire(b)
	if err := e.engine.Remove(ctx, b.Ref()); err != nil {
		return fmt.Errorf("cannot end what runs in a container whose lifetime is over: %w", err)
	}
	return nil
}

// settleLimit bounds how long a warden, which is not trusted, may take to say
// what runs, or to end. Tests have it be less.
var settleLimit = 10 * time.Second

// settle finds what runs in a box, and how much that is.
func (b *box) settle(ctx context.Context) (running int, err error) {
	if b.warden == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	return b.warden.Settle(ctx)
}
