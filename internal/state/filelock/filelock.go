// Package filelock locks open files, and directories where the system allows that.
// A lock keeps out other programs that ask for it, and other opens of the file by this
// program. It keeps nobody from reading or writing. The system releases it when the
// file is closed, also by the death of the program.
package filelock

import (
	"errors"
	"os"
	"time"
)

// ErrLocked is the error of TryLock and Own if another has the lock.
var ErrLocked = errors.New("it is locked by another program")

// TryLock takes an exclusive lock, and does not wait for it.
func TryLock(f *os.File) error { return lock(f, true, false) }

// patience is how long Own waits. A program that only looks whether a lock is held has
// it for a moment. So has a new process, which has a copy of every descriptor of its
// parent until it executes its program.
const patience = time.Second

// Own takes an exclusive lock for the life of a program. It waits for a second at
// most.
func Own(f *os.File) error {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 50) {
		if err := TryLock(f); !errors.Is(err, ErrLocked) || time.Now().After(end) {
			return err
		}
	}
}

// Lock takes an exclusive lock, and waits for it.
func Lock(f *os.File) error { return lock(f, true, true) }

// Share takes a shared lock, and waits for it. It replaces an exclusive one.
func Share(f *os.File) error { return lock(f, false, true) }
