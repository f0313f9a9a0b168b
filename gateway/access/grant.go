package access

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

// A Grant is what the bearer of a key may do. The zero Grant may nothing.
type Grant struct {
	Name   string // of the key, for logs; not a secret
	ID     string // empty: it is not by a key
	Role   Role
	Agents []string // patterns; empty: all
	Hosts  []string // empty: all
	Quota  api.Quota

	stays atomic.Int64 // clients that stay: streams and connections that are open
	used  atomic.Int64 // when the last request was counted, in nanoseconds since 1970; 0: none was
	rate  *rate.Limiter
	alive context.Context // ends when the key is revoked or has expired; nil: never

	expires *time.Time // nil: never
}

// Everything is what the operator may, who reaches the Unix socket.
var Everything = &Grant{Name: "owner", Role: Admin}

// Token is what a caller may who has the gateway's token. It makes no keys: with one it
// could give itself more.
var Token = &Grant{Name: "token", Role: Operator}

// Sees reports whether an agent exists for it.
func (g *Grant) Sees(agent string) bool {
	return len(g.Agents) == 0 || slices.ContainsFunc(g.Agents, func(p string) bool {
		ok, _ := path.Match(p, agent) // false with an error
		return ok
	})
}

// All reports whether every agent exists for it.
func (g *Grant) All() bool { return len(g.Agents) == 0 || slices.Contains(g.Agents, "*") }

// Only is the one agent that it may act for, if there is just one.
func (g *Grant) Only() (agent string, ok bool) {
	if len(g.Agents) != 1 || strings.ContainsAny(g.Agents[0], `*?[\`) {
		return "", false
	}
	return g.Agents[0], true
}

// CheckAgent says why it may not act for an agent.
func (g *Grant) CheckAgent(agent string) error {
	if g.Sees(agent) {
		return nil
	}
	return corral.Errorf(corral.ErrDenied, "name one of "+strings.Join(g.Agents, ", ")+" in the header "+api.HeaderAgent,
		"the key %q may not act for agent %.80q", g.Name, agent)
}

// CheckHost says why it may not act on a host. Empty: what is asked for is on none.
func (g *Grant) CheckHost(h corral.Host) error {
	if h == "" || len(g.Hosts) == 0 || slices.Contains(g.Hosts, string(h)) {
		return nil
	}
	return corral.Errorf(corral.ErrDenied, "use host "+words.Or(g.Hosts), "the key %q may not use host %s", g.Name, h)
}

// A Need is what a request asks of a Grant.
type Need struct {
	Right Right
	Whole bool        // it concerns all agents
	Host  corral.Host // on which it acts; empty: on none
}

// Check says why it may not make a request, which is named for people.
func (g *Grant) Check(n Need, request string) error {
	switch {
	case !g.Role.Has(n.Right):
		return corral.Errorf(corral.ErrDenied, "use a key of the role "+words.Or(With(n.Right)),
			"the key %q has the role %s, which may not %s", g.Name, g.Role, request)
	case n.Whole && !g.All():
		return corral.Errorf(corral.ErrDenied, "use a key for all agents", "the key %q is for some agents, and %s concerns all", g.Name, request)
	case len(g.Hosts) > 0 && (n.Right == Keys || n.Right == Configure): // with a key of its own making it would have all hosts
		return corral.Errorf(corral.ErrDenied, "use a key for all hosts", "the key %q is for some hosts, and %s concerns all", g.Name, request)
	}
	return g.CheckHost(n.Host)
}

// Take counts a request against its rate.
func (g *Grant) Take(now time.Time) error {
	g.used.Store(now.UnixNano())
	if g.rate == nil {
		return nil
	}
	r := g.rate.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return api.ComeBack(wait, "the key %q makes more requests than it may", g.Name)
	}
	return nil
}

// Stay counts a client that stays, until leave is called, when there is room for so many
// more of all. By no key there may be more than there is room for others: then one has
// half of it at most, and cannot keep them out. All who have no key count as one.
func (g *Grant) Stay(room int) (leave func(), err error) {
	if n := g.stays.Add(1); n > int64(room) && g != Everything && g != Token {
		g.stays.Add(-1)
		return nil, corral.Errorf(api.ErrTooMany, "close some", "the key %q has %d logs, terminals, event streams and connections to ports open, and there is room for no more of them than for others", g.Name, n-1)
	}
	return func() { g.stays.Add(-1) }, nil
}

// Context is ctx until the key ends.
func (g *Grant) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.alive == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(g.alive, func() { cancel(context.Cause(g.alive)) })
	return ctx, func() {
		detach()
		cancel(nil)
	}
}

type grantKey struct{}

// WithGrant notes by what right something is done with ctx.
func WithGrant(ctx context.Context, g *Grant) context.Context {
	key := session.Key{Name: g.Name, Max: g.Quota.MaxSessions, Of: g.Sees, Host: g.CheckHost}
	if g.alive != nil {
		key.Ended = g.alive.Done()
	}
	ctx = session.WithKey(ctx, key)
	return context.WithValue(ctx, grantKey{}, g)
}

// From is the Grant that ctx has; Everything if it has none, as in a program that
// has no gateway.
func From(ctx context.Context) *Grant {
	if g, ok := ctx.Value(grantKey{}).(*Grant); ok {
		return g
	}
	return Everything
}

// Nothing is what one may do without a key, or whose key ended while its request was
// under way.
var Nothing = &Grant{Name: "nobody", Agents: []string{"-"}, Hosts: []string{"none"}}

// Ref names a Grant inside of the gateway, for what carries no context.
func (g *Grant) Ref() string {
	if g.ID != "" {
		return g.ID
	}
	return g.Name
}

// Grant is the one that Ref named; Nothing if its key has ended. A nil Store has no keys.
func (s *Store) Grant(ref string) *Grant {
	switch ref {
	case Everything.Name:
		return Everything
	case Token.Name:
		return Token
	}
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if k := s.keys[ref]; k != nil && k.grant.Ended() == nil {
			return k.grant
		}
	}
	return Nothing
}
