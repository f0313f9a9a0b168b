package node

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/broker"
	"github.com/corral-exec/corral/internal/fabric"
)

const (
	dialLimit = 5 * time.Second // for one attempt
	firstWait = 100 * time.Millisecond
	mostWait  = 2 * time.Second
)

// backoff is the time before an attempt, of which the first is 1. Nodes of one
// gateway do not come back all at once.
func backoff(attempt int) time.Duration {
	wait := mostWait
	if attempt < 5 {
		wait = firstWait << attempt
	}
	return wait/2 + rand.N(wait/2)
}

// dialer gives up when the node ends.
type dialer struct{ ctx context.Context }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	n := net.Dialer{Timeout: dialLimit}
	return n.DialContext(d.ctx, network, address)
}

// options are those of the connection to the gateway's message server.
func (n *life) options(ctx context.Context) ([]nats.Option, error) {
	line := n.state.line
	opts := append(fabric.ConnectOptions(n.log),
		nats.Name("corral node"),
		nats.SetCustomDialer(dialer{ctx}),
		nats.CustomReconnectDelay(backoff),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { n.trouble.Store(&err) }),
	)
	if line.Cert != "" {
		pinned, err := broker.Pinned(line.Cert, n.state.key)
		if err != nil {
			return nil, err
		}
		opts = append(opts, pinned...)
	} else {
		opts = append(opts, nats.Nkey(n.state.public, n.state.key.Sign), nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	// A WebSocket begins with TLS anyway. Elsewhere a server may want to speak
	// first, which says nothing but what it is: our words come after TLS.
	tlsFirst := !line.WebSocket && !n.serverFirst
	return append(opts, func(o *nats.Options) error { o.TLSHandshakeFirst = tlsFirst; return nil }), nil
}

// dial connects, and tries until it can or ctx ends.
func (n *life) dial(ctx context.Context) (*nats.Conn, error) {
	for attempt := 1; ; attempt++ {
		opts, err := n.options(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := nats.Connect(n.state.line.URL(), opts...)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if record := (tls.RecordHeaderError{}); errors.As(err, &record) {
			n.serverFirst = !n.serverFirst
		} else {
			err = n.unreachable(err)
			if errors.Is(err, corral.ErrDenied) && !n.state.Paired() {
				return nil, err
			}
			n.set(Status{Phase: Connecting, Error: err.Error(), Hint: corral.Hint(err)})
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(backoff(attempt)):
		}
	}
}

// unreachable says why there is no connection.
func (n *life) unreachable(err error) error {
	kind, hint := corral.ErrUnavailable, "see whether the gateway runs, with --nodes, and can be reached from here"
	if errors.Is(err, corral.ErrDenied) { // the wrong certificate
		kind, hint = corral.ErrDenied, hintOr(err, hint)
	}
	if errors.Is(err, nats.ErrNoServers) {
		return corral.Errorf(kind, hint, "cannot connect to the gateway at %s: nobody listens there", n.where())
	}
	return corral.Errorf(kind, hint, "cannot connect to the gateway at %s: %w", n.where(), err)
}

// where is the address of the gateway, for people.
func (n *life) where() string { return strings.Join(n.state.line.Hosts, ", ") }
