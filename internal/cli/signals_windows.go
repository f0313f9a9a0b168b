package cli

import (
	"os"
	"syscall"
)

// forwarded are the signals that a command in the foreground gets.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

// endingSignals end a gateway in good order.
var endingSignals = forwarded

// alive reports whether there is a process of that ID.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	return p.Release() == nil
}
