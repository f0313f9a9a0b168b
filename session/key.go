package session

import (
	"context"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// A Key is by what right sessions are begun, and how many of its agents may run at a
// time, all together.
type Key struct {
	Name string            // noted with the session
	Max  int               // 0: no bound
	Of   func(string) bool // which agents are meant
	// Ended is closed when it may do nothing more: what is in the foreground of its
	// calls goes to the background. Nil: never.
	Ended <-chan struct{}
}

type keyOf struct{}

// WithKey has sessions that are begun with ctx be by a key.
func WithKey(ctx context.Context, k Key) context.Context {
	return context.WithValue(ctx, keyOf{}, k)
}

func keyFrom(ctx context.Context) Key {
	k, _ := ctx.Value(keyOf{}).(Key)
	return k
}

// within says why no more session may be begun with ctx. mu is held.
func (m *Manager) within(ctx context.Context) error {
	k := keyFrom(ctx)
	if k.Max <= 0 {
		return nil
	}
	n := int64(0)
	for agent, running := range m.running {
		if k.Of(agent) {
			n += running.Load()
		}
	}
	if n < int64(k.Max) {
		return nil
	}
	return corral.Errorf(api.ErrTooMany, "kill some, or wait for one to end", "the key %q has %d running sessions, and may have no more", k.Name, n)
}
