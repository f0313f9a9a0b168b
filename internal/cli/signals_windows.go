package cli

import (
	"os"
	"syscall"
)

// forwarded are the signals that a session handles.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}
