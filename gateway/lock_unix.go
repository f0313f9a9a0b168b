//go:build unix

package gateway

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes f for this process alone, until it is closed.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

const privateFiles = true // permissions mean something
