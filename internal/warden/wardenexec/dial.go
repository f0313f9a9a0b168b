package wardenexec

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// Dial connects to a TCP port of the loopback interface that the warden sees: that of
// its sandbox. The connection has a method CloseWrite. ErrNotListening: nothing listens
// on that port. ErrUnsupported: the warden is of an earlier version. ErrGone: there is no
// warden.
func (e *Executor) Dial(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, corral.Errorf(corral.ErrInvalid, "ports are numbered 1 to 65535", "no TCP port has the number %d", port)
	}
	c, err := e.connection(ctx, false)
	if err != nil {
		return nil, err
	}
	if !c.dials {
		return nil, corral.Errorf(errors.ErrUnsupported, "recreate the sandbox (corral sandbox recreate)", "the ports of this sandbox cannot be reached: its warden is of an earlier version")
	}
	inMessages := !c.conn.PassesFiles() || c.oneWay
	late := func(a answer) { // with which nothing can be done any more
		closeFDs(a.fds)
		if inMessages && a.m != nil && a.m.Type == wire.Dialled {
			c.closePort(a.m.Req)
		}
	}
	m := &wire.Message{Type: wire.Dial, Port: uint64(port)}
	if deadline, ok := ctx.Deadline(); ok {
		m.Timeout = uint64(max(time.Until(deadline), time.Millisecond))
	}
	a, err := c.call(ctx, m, late)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, corral.Errorf(corral.ErrUnavailable, "", "port %d was not connected to: %w", port, ctx.Err())
	case errors.Is(err, errSent):
		return nil, corral.Errorf(corral.ErrUnavailable, "try again", "%w", err)
	case err != nil:
		return nil, err
	}
	if err := a.errNotPassed(); err != nil {
		return nil, err
	}
	if a.m.Type == wire.Dialled && inMessages {
		closeFDs(a.fds)
		return c.newPortStream(a, m.Req, port)
	}
	if a.m.Type != wire.Dialled || len(a.fds) != 1 {
		closeFDs(a.fds)
		return nil, corral.Errorf(corral.ErrUnavailable, "", "the warden answered without a connection to port %d", port)
	}
	conn, err := newPortConn(a.fds[0], port)
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "the warden sent what is no connection to port %d: %w", port, err)
	}
	return conn, nil
}
