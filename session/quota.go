package session

import (
	"context"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// A Quota bounds how many sessions of some agents run at a time, all together.
type Quota struct {
	Name string // whose it is, for errors
	Max  int    // 0: no bound
	Of   func(agent string) bool
}

type quotaKey struct{}

// WithQuota has sessions that are begun with ctx count against a quota.
func WithQuota(ctx context.Context, q Quota) context.Context {
	return context.WithValue(ctx, quotaKey{}, q)
}

// within says why no more session may be begun with ctx. mu is held.
func (m *Manager) within(ctx context.Context) error {
	q, _ := ctx.Value(quotaKey{}).(Quota)
	if q.Max <= 0 {
		return nil
	}
	n := int64(0)
	for agent, running := range m.running {
		if q.Of(agent) {
			n += running.Load()
		}
	}
	if n < int64(q.Max) {
		return nil
	}
	return corral.Errorf(api.ErrTooMany, "kill some, or wait for one to end", "%s has %d running sessions, and may have no more", q.Name, n)
}
