package wardenexec

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// acks are processes that the warden may forget. They are told together: a
// message for each would cost a short command a tenth of its time.
type acks struct {
	sending turn.Lock // keeps messages in order; add never waits for it

	mu    sync.Mutex
	ids   []string
	timer *time.Timer
}

const (
	// A program that runs one command after the other begins the next within a few
	// milliseconds: told then, the warden would be woken while it starts that one.
	ackDelay = 100 * time.Millisecond
	ackBatch = 64
)

// add tells the warden soon. What is not told, because this program ends, is
// told by the next life.
func (a *acks) add(id string, client func() *client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(a.ids, id)
	switch len(a.ids) {
	case 1:
		a.timer = time.AfterFunc(ackDelay, func() { _ = a.flush(context.Background(), client()) })
	case ackBatch:
		// Not from here: this may be who reads the connection, and must
		// not wait for a Send.
		a.timer.Reset(0)
	}
}

// flush tells the warden now. Messages are read in order, so what is sent next
// finds the processes forgotten. The error is that of ctx.
func (a *acks) flush(ctx context.Context, c *client) error {
	if err := a.sending.Take(ctx); err != nil {
		return err
	}
	defer a.sending.Release()
	return a.flushSending(ctx, c)
}

// flushIf is flush if that process is one of them, or being told of.
func (a *acks) flushIf(ctx context.Context, id string, c *client) error {
	if err := a.sending.Take(ctx); err != nil {
		return err
	}
	defer a.sending.Release()
	a.mu.Lock()
	waits := slices.Contains(a.ids, id)
	a.mu.Unlock()
	if !waits {
		return nil
	}
	return a.flushSending(ctx, c)
}

// flushSending is flush; sending is held.
func (a *acks) flushSending(ctx context.Context, c *client) error {
	a.mu.Lock()
	if a.timer != nil {
		a.timer.Stop()
	}
	ids := a.ids
	if c != nil {
		a.ids = nil
	}
	a.mu.Unlock()
	if len(ids) == 0 || c == nil {
		return nil
	}
	// If the connection is broken, the next Hello lists them again.
	if err := c.send(ctx, &wire.Message{Type: wire.Forget, Args: ids}); !errors.Is(err, wire.ErrUnsent) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(ids, a.ids...)
	a.timer.Reset(ackDelay)
	return ctx.Err()
}
