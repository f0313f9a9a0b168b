package cli

import (
	"errors"
	"syscall"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/foreground"
)

// Exit codes of corral's own. What is not listed is the command's.
const (
	exitFindings = 1   // corral doctor found something that fails
	exitUsage    = 2   // the request makes no sense
	exitTimeout  = 124 // the command ran out of time, as timeout(1) has it
	exitFailure  = 125 // corral failed, as docker(1) and timeout(1) have it
	exitSignal   = 128 // and a signal's number: the signal ended the command, as a shell has it
)

// An exitError is an end with a code of its own. Without text, everything was
// said already.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var status *exitError
	var interrupted foreground.Interruption
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.code
	case errors.As(err, &interrupted):
		return exitSignal + int(interrupted.Signal)
	case brokenPipe(err):
		return exitSignal + int(corral.SIGPIPE)
	case errors.Is(err, corral.ErrInvalid):
		return exitUsage
	}
	return exitFailure
}

// brokenPipe says that our output is no longer read, as in
// corral exec … | head. It is no failure worth a word.
func brokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
