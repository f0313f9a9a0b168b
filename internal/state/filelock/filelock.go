// Package filelock locks open files, and directories where the system allows that. A
// lock excludes other programs that ask for it, and other opens of the file by this
// program. It does not prevent reading or writing. The system releases it when the file
// is closed, also when the program dies.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrLocked is the error of TryLock and Own if the lock is taken.
var ErrLocked = errors.New("it is locked by another program")

// TryLock takes an exclusive lock, and does not wait for it.
func TryLock(f *os.File) error { return lock(f, true, false) }

// patience is how long Own waits. Two kinds of processes hold a lock for a moment: a
// program that checks whether it is held, and a new process, which has its parent's
// descriptors until it executes its program.
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

// Open opens or creates a file, with an exclusive lock. It waits until ctx ends: then
// the error is ErrLocked and that of ctx.
func Open(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for delay := time.Millisecond; ; delay = min(2*delay, patience/20) {
		if err = TryLock(f); err == nil {
			return f, nil
		}
		if errors.Is(err, ErrLocked) {
			select {
			case <-time.After(delay):
				continue
			case <-ctx.Done():
				err = fmt.Errorf("%s: %w: %w", name, ErrLocked, ctx.Err())
			}
		}
		f.Close()
		return nil, err
	}
}

// Lock takes an exclusive lock, and waits for it.
func Lock(f *os.File) error { return lock(f, true, true) }

// Share takes a shared lock, and waits for it. It replaces an exclusive one.
func Share(f *os.File) error { return lock(f, false, true) }
