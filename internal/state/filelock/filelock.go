// Package filelock locks open files, also directories where the system allows that,
// against whoever else has them open: other programs, and other opens by this one.
// What is locked can still be read and written by who does not ask. The system lets
// go of a lock when its file is closed, so also when its program is killed.
package filelock

import (
	"errors"
	"os"
	"time"
)

// ErrLocked is the error of TryLock while somebody else has the lock.
var ErrLocked = errors.New("it is locked by another program")

// TryLock takes the lock of a file alone, and does not wait for it.
func TryLock(f *os.File) error { return lock(f, true, false) }

// patience is for how long others may have a lock that is to be kept: who only looks
// whether it is held has it for a moment, and a process that this program, or the one
// before, is making has a copy of every descriptor until it executes its program.
const patience = time.Second

// Own takes the lock of a file alone, to keep it. It waits for a second at most, after
// which somebody else keeps it: ErrLocked.
func Own(f *os.File) error {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 50) {
		if err := TryLock(f); !errors.Is(err, ErrLocked) || time.Now().After(end) {
			return err
		}
	}
}

// Lock takes the lock of a file alone. It waits until nobody else has it.
func Lock(f *os.File) error { return lock(f, true, true) }

// Share takes the lock of a file beside others that share it, instead of the lock that
// this one may have. It waits while somebody has it alone.
func Share(f *os.File) error { return lock(f, false, true) }
