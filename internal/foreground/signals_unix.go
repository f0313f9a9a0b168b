//go:build unix

package foreground

import (
	"os"
	"syscall"
)

// forwarded are the signals that a command in the foreground gets.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGWINCH}

// ending are the signals that end a server in good order.
var ending = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}
