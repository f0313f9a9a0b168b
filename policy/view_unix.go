//go:build unix

package policy

import (
	"os"

	"golang.org/x/sys/unix"
)

const nonblock = unix.O_NONBLOCK

func executable(path string) error {
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &os.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
