//go:build unix

package node

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes f for this process alone, until it is closed.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// errLocked is what tryLock returns while another process has it.
const errLocked = unix.EWOULDBLOCK

const privateFiles = true // permissions mean something
