package filelock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// beyond is a byte beyond the end of any file: locked bytes cannot be read by others.
func beyond() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: math.MaxInt32} }

func lock(f *os.File, alone, wait bool) error {
	h := windows.Handle(f.Fd())
	flags := uint32(0)
	if alone {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	} else {
		// A lock is not converted: it would be held twice.
		_ = windows.UnlockFileEx(h, 0, 1, 0, beyond()) // it fails without a lock
	}
	if !wait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := windows.LockFileEx(h, flags, 0, 1, 0, beyond())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return ErrLocked
	}
	return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
}
