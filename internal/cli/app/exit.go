package app

import (
	"errors"
	"syscall"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/foreground"
)

// Exit codes of corral's own. What is not listed is the command's.
const (
	ExitFindings = 1   // corral doctor found something that fails
	exitUsage    = 2   // the request makes no sense
	ExitTimeout  = 124 // the command ran out of time, as timeout(1) has it
	ExitFailure  = 125 // corral failed, as docker(1) and timeout(1) have it
	ExitSignal   = 128 // and a signal's number: the signal ended the command, as a shell has it
)

// An ExitError is an end with a code of its own. Without text, everything was
// said already.
type ExitError struct {
	Code int
	Text string
}

func (e *ExitError) Error() string { return e.Text }

// ExitCode is the one place where an error becomes an exit code.
func ExitCode(err error) int {
	var status *ExitError
	var interrupted foreground.Interruption
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.Code
	case errors.As(err, &interrupted):
		return ExitSignal + int(interrupted.Signal)
	case brokenPipe(err):
		return ExitSignal + int(corral.SIGPIPE)
	case errors.Is(err, corral.ErrInvalid):
		return exitUsage
	}
	return ExitFailure
}

// brokenPipe says that our output is no longer read, as in
// corral exec … | head. It is no failure worth a word.
func brokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
