package tunnel

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// splice has the kernel move bytes from a socket to a Unix socket until from ends: through
// a pipe, which has the pages of what came, so that none is copied. handled is false, and
// nothing has been moved, if they are others. To TCP it costs more than copying: each page
// is sent by itself, and the sender's next pages are no longer in the processor's cache.
//
// The sockets may be those of a sandbox too, which can have splice(2) wait for data. Close
// has to end that.
func splice(to, from Conn) (moved int64, handled bool, err error) {
	if _, ok := to.(*net.UnixConn); !ok {
		return 0, false, nil
	}
	in, out := rawOf(from), rawOf(to)
	if in == nil || out == nil {
		return 0, false, nil
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return 0, false, nil //nolint:nilerr // as without descriptors that are free: it is copied
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	_, _ = unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, pipeSize) // else it is as large as all are
	for {
		n, err := move(in.Read, func(fd int) (int64, error) {
			return unix.Splice(fd, nil, pipe[1], nil, pipeSize, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		})
		switch {
		case errors.Is(err, unix.EINVAL) && moved == 0:
			return 0, false, nil
		case err != nil || n == 0:
			return moved, true, err
		}
		for n > 0 {
			k, err := move(out.Write, func(fd int) (int64, error) {
				return unix.Splice(pipe[0], nil, fd, nil, int(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			})
			if err != nil {
				return moved, true, err
			}
			moved += k
			n -= k
		}
	}
}

// pipeSize is how much a pipe of splice holds, in bytes.
const pipeSize = 1 << 20

func rawOf(c Conn) syscall.RawConn {
	has, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := has.SyscallConn()
	if err != nil { // closed: the copying says so
		return nil
	}
	return raw
}

// move calls splice(2) when a socket is ready for it.
func move(ready func(func(fd uintptr) bool) error, call func(fd int) (int64, error)) (n int64, err error) {
	rerr := ready(func(fd uintptr) bool {
		for {
			if n, err = call(int(fd)); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case err != nil:
		return 0, os.NewSyscallError("splice", err)
	}
	return n, nil
}
