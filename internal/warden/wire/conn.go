package wire

import (
	"context"
	"errors"
	"fmt"
)

// A Conn carries messages between a gateway and a warden. Send may be called
// from any goroutine; Recv from one at a time. After Close, and after an error,
// every call fails.
type Conn interface {
	// Send sends one message. Descriptors travel with it where the carrier
	// can pass them, else it is ErrNoFiles; the caller keeps its own.
	Send(m *Message, fds ...int) error
	// Recv returns the next message and its descriptors, which the caller
	// now owns and which are close-on-exec. Its Data is valid until the next call. With ErrNotPassed it returns the
	// message without its descriptors, and the connection goes on.
	Recv() (*Message, []int, error)
	// PassesFiles tells whether descriptors travel with messages.
	PassesFiles() bool
	Close() error
}

// OneWay tells whether descriptors travel to the other end of c and none comes back:
// gVisor takes those that it is sent, and sends none.
func OneWay(c Conn) bool {
	o, ok := c.(interface{ OneWay() bool })
	return ok && o.OneWay()
}

// Waiting tells whether a further message, or a part of one, has arrived. It is called
// by who calls Recv. Where it cannot be known it is false.
func Waiting(c Conn) bool {
	w, ok := c.(interface{ Waiting() bool })
	return ok && w.Waiting()
}

// Pack calls Pack of a c that carries messages as bytes.
func Pack(c Conn, on bool) {
	if f, ok := c.(interface{ Pack(on bool) }); ok {
		f.Pack(on)
	}
}

// ErrNoFiles: descriptors were given to a carrier that cannot pass them.
var ErrNoFiles = errors.New("this connection cannot pass file descriptors")

// ErrNotPassed: the kernel could not pass on the descriptors of a message. This process
// has as many open as it may have (RLIMIT_NOFILE).
var ErrNotPassed = errors.New("the kernel passes no descriptor: too many open files")

// A ContextSender is a Conn whose sending a context bounds.
type ContextSender interface {
	// SendContext is Send, but returns soon after ctx has ended. The error is then
	// ErrUnsent or ErrSending.
	SendContext(ctx context.Context, m *Message, fds ...int) error
}

var (
	// ErrUnsent: the context ended, and nothing of the message was sent. The
	// connection goes on.
	ErrUnsent = errors.New("not sent")
	// ErrSending: the context ended, and the rest of the message is sent without
	// the caller, who may close its descriptors.
	ErrSending = errors.New("still being sent")
)

// take waits for the turn to send.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnsent, ctx.Err())
	}
}
