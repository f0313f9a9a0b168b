package wardenexec

import (
	"io"
	"os"
	"sync"
	"syscall"
)

// descriptor is an end of a pipe, with just what reading output takes of an
// os.File: it is not closed while it is used. It has no place in the runtime's
// poller, and the runtime is not told of its end, which never waits; both cost
// more than the rest of a command's output.
type descriptor struct {
	fd int

	mu     sync.Mutex
	users  int
	closed bool
}

// Control calls f with the descriptor. The error is os.ErrClosed.
func (d *descriptor) Control(f func(fd uintptr)) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return os.ErrClosed
	}
	d.users++
	d.mu.Unlock()
	f(uintptr(d.fd))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users--
	d.end()
	return nil
}

// Close closes it as soon as it is not in use.
func (d *descriptor) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.end()
	}
	return nil
}

func (d *descriptor) end() {
	if d.closed && d.users == 0 {
		closePipes(d.fd)
	}
}

// terminalEnd is the output of a terminal; its input is the same file.
type terminalEnd struct {
	syscall.RawConn
	io.Closer
}
