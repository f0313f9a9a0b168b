// Package located tells those who look for a process where it was started, so that no
// other host or node is asked for it.
package located

import "context"

// A Place is where a process was started. What is empty is not known.
type Place struct {
	Host string
	Node string // the node's id, or its full name
}

type key struct{}

// With returns a context to look for the process of a place.
func With(ctx context.Context, at Place) context.Context { return context.WithValue(ctx, key{}, at) }

// From returns the place that With stored.
func From(ctx context.Context) Place {
	at, _ := ctx.Value(key{}).(Place)
	return at
}

// Or is With, unless a place is stored already.
func Or(ctx context.Context, host, node string) context.Context {
	if From(ctx) != (Place{}) {
		return ctx
	}
	return With(ctx, Place{Host: host, Node: node})
}

// Among returns those of the hosts that are to be asked.
func Among[H ~string](ctx context.Context, hosts ...H) []H {
	at := From(ctx)
	if at.Host == "" {
		return hosts
	}
	for _, h := range hosts {
		if string(h) == at.Host {
			return []H{h}
		}
	}
	return nil
}
