//go:build unix

package cli

import (
	"os"
	"syscall"
)

// forwarded are the signals that a session handles.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGWINCH}
