// Package turn has a lock for which a context bounds the wait, and a send that never
// waits. A method of the contract that takes a context waits for no sync.Mutex that
// others hold while they wait for something else: it would not return when its context
// ends.
package turn

import (
	"context"
	"sync"
)

// A Lock is held by one at a time. New makes one.
type Lock chan struct{}

// New returns a Lock that is free.
func New() Lock { return make(Lock, 1) }

// Take waits until the lock is free, and takes it. The error is that of ctx, if it
// ends before; a lock that is free is taken in any case.
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

// Offer sends v unless the channel is full. It never waits: over a channel with room for
// one it wakes who reads there, once.
func Offer[T any](ch chan<- T, v T) {
	select {
	case ch <- v:
	default:
	}
}

// Keyed is a Lock for each key. It holds memory only for keys that are locked or
// waited for. The zero Keyed is ready.
type Keyed[K comparable] struct {
	mu   sync.Mutex
	held map[K]*users
}

type users struct {
	lock Lock
	n    int // who holds it or waits for it
}

// Len is how many keys are locked or waited for.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held)
}

// Take waits for the lock of a key until ctx ends, and returns how to release it.
func (k *Keyed[K]) Take(ctx context.Context, key K) (release func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[K]*users{}
	}
	u := k.held[key]
	if u == nil {
		u = &users{lock: New()}
		k.held[key] = u
	}
	u.n++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if u.n--; u.n == 0 {
			delete(k.held, key)
		}
	}
	if err := u.lock.Take(ctx); err != nil {
		leave()
		return nil, err
	}
	return func() { u.lock.Release(); leave() }, nil
}
