//go:build unix

package wardenexec

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockJournal tells whether nobody else has the journal open, and keeps others
// out until shareJournal. Otherwise it shares it.
func lockJournal(f *os.File) (alone bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, shareJournal(f)
	}
	return err == nil, err
}

func shareJournal(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_SH) }
