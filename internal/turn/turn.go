// Package turn has a lock for which a context bounds the wait. A method of the
// contract that takes a context waits for no sync.Mutex that others hold while
// they wait for something else: it would not return when its context ends.
package turn

import "context"

// A Lock is held by one at a time. New makes one.
type Lock chan struct{}

// New returns a Lock that nobody holds.
func New() Lock { return make(Lock, 1) }

// Take waits until nobody holds the lock, and holds it. The error is that of ctx,
// if it ends before; a lock that is free is taken in any case.
func (l Lock) Take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release lets go of the lock.
func (l Lock) Release() { <-l }
