//go:build unix

package daemon

import (
	"errors"
	"syscall"
)

// alive reports whether there is a process of that ID.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
