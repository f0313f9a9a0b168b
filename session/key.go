package session

import (
	"context"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// A Key is the API key that begins sessions. It bounds how many sessions of its agents
// may run at a time, all together.
type Key struct {
	Name string            // recorded with the session
	Max  int               // 0: no bound
	Of   func(string) bool // which agents it covers
	// Host returns an error if it may not act on sessions of a host. Nil: it may on all.
	Host func(corral.Host) error
	// Ended is closed when the key is no longer valid: the sessions in the foreground
	// of its calls go to the background. Nil: never.
	Ended <-chan struct{}
}

type keyOf struct{}

// WithKey returns a context in which sessions are begun by a key.
func WithKey(ctx context.Context, k Key) context.Context {
	return context.WithValue(ctx, keyOf{}, k)
}

func keyFrom(ctx context.Context) Key {
	k, _ := ctx.Value(keyOf{}).(Key)
	return k
}

// mayAct returns an error if a call with ctx may not act on a process of a host: send it
// input or a signal.
func mayAct(ctx context.Context, on corral.Host) error {
	if k := keyFrom(ctx); k.Host != nil {
		return k.Host(on)
	}
	return nil
}

// within returns an error if no more sessions may be begun with ctx. mu is held.
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
