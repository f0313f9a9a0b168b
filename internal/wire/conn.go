package wire

import "errors"

// A Conn carries messages between a gateway and a warden. Send may be called
// from any goroutine; Recv from one at a time. After Close, and after an error,
// every call fails.
type Conn interface {
	// Send sends one message. Descriptors travel with it where the carrier
	// can pass them, else it is ErrNoFiles; the caller keeps its own.
	Send(m *Message, fds ...int) error
	// Recv returns the next message and its descriptors, which the caller
	// now owns and which are close-on-exec.
	Recv() (*Message, []int, error)
	// PassesFiles tells whether descriptors travel with messages.
	PassesFiles() bool
	Close() error
}

// ErrNoFiles: descriptors were given to a carrier that cannot pass them.
var ErrNoFiles = errors.New("this connection cannot pass file descriptors")
