package node

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes f for this process alone, until it is closed.
func tryLock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
}

// errLocked is what tryLock returns while another process has it.
const errLocked = windows.ERROR_LOCK_VIOLATION

const privateFiles = false // permissions are those of the directory
