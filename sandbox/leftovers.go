package sandbox

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/corral-exec/corral"
)

// ended is a process that has ended. Some of its descendants may be left in its box.
type ended struct {
	corral.Process
	sandbox *Executor
	removed *atomic.Bool
}

// Unwrap is for package origin.
func (p ended) Unwrap() corral.Process { return p.Process }

// Remove implements corral.Process. After it the ID may be another's, whom a
// signal to this process must not reach.
func (p ended) Remove(ctx context.Context) error {
	err := p.Process.Remove(ctx)
	if err == nil {
		p.removed.Store(true)
	}
	return err
}

// Signal reaches what is left of it.
func (p ended) Signal(ctx context.Context, s corral.Signal) error {
	err := p.Process.Signal(ctx, s)
	if !errors.Is(err, corral.ErrEnded) || p.removed.Load() {
		return err
	}
	id := p.Info().ID
	for _, b := range p.sandbox.open() {
		if b.warden == nil {
			continue
		}
		if has, left := p.sandbox.signalLeft(ctx, b, id, s); has {
			return left
		}
	}
	return err
}

// signalLeft signals what is left of a process in a box, if that had it.
func (e *Executor) signalLeft(ctx context.Context, b *box, id string, s corral.Signal) (had bool, err error) {
	e.mu.Lock()
	b.hold("")
	e.mu.Unlock()
	defer e.leave(b, "")
	if had, err = b.warden.Has(ctx, id); err != nil || !had {
		return false, nil // a box that is gone has nothing left
	}
	p, err := b.warden.Attach(ctx, id)
	if err == nil {
		err = p.Signal(ctx, s)
	}
	return true, err
}
