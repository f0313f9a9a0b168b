package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops typed input that was not read yet, if the terminal can do that.
func forgetTyped(tty *os.File) {
	if conn, err := tty.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
	}
}
