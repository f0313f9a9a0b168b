//go:build unix

package cli

import (
	"errors"
	"os"
	"syscall"
)

// forwarded are the signals that a command in the foreground gets.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGWINCH}

// endingSignals end a gateway in good order.
var endingSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}

// alive reports whether there is a process of that ID.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
