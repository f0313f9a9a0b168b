package tunnel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// gone reports whether the other side of a connection, which has ended what it sends,
// receives nothing any more.
func gone(c Conn) bool {
	has, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := has.SyscallConn()
	if err != nil {
		return true
	}
	hungUp := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP and POLLERR are always looked for
		n, err := unix.Poll(fds, 0)
		hungUp = err == nil && n > 0
	})
	return err != nil || hungUp
}
