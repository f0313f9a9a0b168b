package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops what was typed at a terminal and not read yet. One that
// cannot do that keeps it.
func forgetTyped(tty *os.File) {
	if conn, err := tty.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
	}
}
