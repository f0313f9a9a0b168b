package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/turn"
)

// options are the options of the connection to the gateway's message server.
func (n *life) options(ctx context.Context) []nats.Option {
	return append(fabric.ConnectOptions(n.log),
		nats.Name("corral node"),
		nats.CustomReconnectDelay(fabric.Backoff),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			// The gateway cuts the connection of a machine that it approves. The next
			// one has the rights of a node.
			level := slog.LevelDebug
			if n.serves.Load() {
				level = slog.LevelWarn
			}
			if err != nil {
				n.log.Log(ctx, level, "the connection to the message server was cut", "error", err)
			}
			turn.Offer(n.troubles, nil)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			turn.Offer(n.troubles, err) // the caller gets another error
		}),
	)
}

// connect retries until it connects or ctx ends.
func (n *life) connect(ctx context.Context) (*fabric.Link, error) {
	line := n.state.line
	dial := func(o nats.Option) (*nats.Conn, error) {
		return broker.Dial(line.URL(), line.Cert, n.state.key, append(n.options(ctx), o)...)
	}
	for attempt := 1; ; attempt++ {
		conn, err := fabric.Connect(ctx, dial, func(err error) { turn.Offer(n.troubles, err) })
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err = n.unreachable(err)
		if errors.Is(err, corral.ErrDenied) && !errors.Is(err, nats.ErrAuthorization) && !n.state.Paired() {
			return nil, err
		}
		n.set(Status{Phase: Connecting, Error: err.Error(), Hint: corral.Hint(err)})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(fabric.Backoff(attempt)):
		}
	}
}

// unreachable explains why there is no connection.
func (n *life) unreachable(err error) error {
	const hint = "see whether the gateway runs, with --nodes, and can be reached from here"
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return corral.Errorf(corral.ErrUnavailable, hint, "cannot connect to the gateway at %s: nobody listens there", n.where())
	case errors.Is(err, nats.ErrAuthorization): // an external server
		return corral.Errorf(corral.ErrDenied, "have its operator take what corral nodes server-config --allow "+n.state.public+" prints on the gateway",
			"the message server at %s does not let this machine's key in: %w", n.where(), err)
	case errors.Is(err, corral.ErrDenied): // not the certificate
		return corral.Errorf(corral.ErrDenied, hintOr(err, hint), "cannot connect to the gateway at %s: %w", n.where(), err)
	}
	if strange := broker.Strange(n.state.line.URL(), err); strange != nil {
		err = strange // it differs with each attempt
	}
	hinted := hintOr(err, hint)
	if e, ok := errors.AsType[*corral.Error](err); ok && e.Err != nil {
		err = e.Err // the outer error repeats the address
	}
	return corral.Errorf(corral.ErrUnavailable, hinted, "cannot connect to the gateway at %s: %w", n.where(), err)
}

// where is the address of the gateway, for people.
func (n *life) where() string { return strings.Join(n.state.line.Hosts, ", ") }
