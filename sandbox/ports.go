package sandbox

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
)

// DialPort connects to what listens on a TCP port inside the sandbox, on 127.0.0.1 or
// else on ::1, whether or not the sandbox has a network. The connection has a method
// CloseWrite.
//
// No container is made for it: nothing would listen in a new one. If the last container
// has nothing that listens, those are tried that are left until their commands end, the
// newest first. ErrNotListening: nothing listens there, or no container runs.
// ErrUnsupported: with the driver exec.
func (e *Executor) DialPort(ctx context.Context, port int) (net.Conn, error) {
	conn, err := e.dialPort(ctx, port)
	if err == nil {
		e.touch()
	}
	return conn, err
}

func (e *Executor) dialPort(ctx context.Context, port int) (net.Conn, error) {
	if isPaused(e.stateDir, e.name) {
		return nil, corral.Errorf(corral.ErrUnavailable, "corral sandbox resume "+e.name, "the sandbox %s is paused, and its port %d does not answer", e.name, port)
	}
	e.mu.Lock()
	closed, b := e.closed, e.current
	if b != nil && (b.dead || b.warden == nil) {
		b = nil
	}
	if b != nil {
		b.hold("")
	}
	e.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if b != nil { // nearly always
		conn, err := e.dialBox(ctx, b, port)
		if err == nil || !isNothing(err) {
			return conn, err
		}
	}
	return e.dialAny(ctx, b, port)
}

// isNothing reports whether an error means that nothing listens in a container.
func isNothing(err error) bool {
	return errors.Is(err, corral.ErrNotListening) || errors.Is(err, wardenexec.ErrGone)
}

// dialBox connects to a port in a box that is held, and lets go of the box.
func (e *Executor) dialBox(ctx context.Context, b *box, port int) (net.Conn, error) {
	defer e.leave(b, "")
	if b.warden == nil {
		return nil, corral.Errorf(errors.ErrUnsupported, "use the driver auto", "the ports of the sandbox %s cannot be reached: it has no warden", e.name)
	}
	return b.warden.Dial(ctx, port)
}

// dialAny connects to a port in any of the sandbox's boxes but one.
func (e *Executor) dialAny(ctx context.Context, but *box, port int) (net.Conn, error) {
	if err := e.openAll(ctx); err != nil {
		return nil, err
	}
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil {
		return nil, err
	}
	running := but != nil
	for _, id := range slices.Backward(rec.Boxes) {
		e.mu.Lock()
		b := e.boxes[id]
		if b == nil || b == but || b.dead {
			e.mu.Unlock()
			continue
		}
		b.hold("")
		e.mu.Unlock()
		conn, err := e.dialBox(ctx, b, port)
		if err == nil || !isNothing(err) {
			return conn, err
		}
		running = running || !errors.Is(err, wardenexec.ErrGone)
	}
	if !running {
		return nil, corral.Errorf(corral.ErrNotListening, "start a command in it that listens there", "nothing listens on port %d: the sandbox %s does not run", port, e.name)
	}
	return nil, corral.Errorf(corral.ErrNotListening, "start what is to listen there; it can listen on 127.0.0.1", "nothing listens on port %d of the sandbox %s", port, e.name)
}
