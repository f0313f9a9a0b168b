package foreground

import (
	"os"
	"syscall"
)

// forwarded are the signals that a command in the foreground gets.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

// ending are the signals that end a server in good order.
var ending = forwarded
