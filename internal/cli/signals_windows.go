package cli

import (
	"os"
	"syscall"
)

// forwarded are the signals that a command in the foreground gets.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

// endingSignals end a gateway in good order.
var endingSignals = forwarded
