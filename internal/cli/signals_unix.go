//go:build unix

package cli

import (
	"os"
	"syscall"
)

// forwarded are the signals that a command in the foreground gets.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGWINCH}

// endingSignals end a gateway in good order.
var endingSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}
