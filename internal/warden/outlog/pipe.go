package outlog

import (
	"errors"
	"io/fs"
	"os"
)

// What a pipe of a process is for.
const (
	PipeStdin  = "stdin"
	PipeStdout = "stdout"
	PipeStderr = "stderr"
	PipeRelay  = "relay"
)

// suffixPipe comes before it in the pipe's name.
const suffixPipe = ".pipe-"

// RemovePipes deletes the names of a process's pipes, when it is on record how it ended or
// that it was not started. It may have none.
func RemovePipes(dir *os.Root, id string) error {
	var errs []error
	for _, role := range []string{PipeStdin, PipeStdout, PipeStderr, PipeRelay} {
		if err := dir.Remove(id + suffixPipe + role); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
