//go:build unix

package daemon

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/state/filelock"
)

// lockDir locks a directory of this user, unless it is locked. It follows no
// symbolic link.
func lockDir(dir string) (_ *os.File, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir)
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	var opened, named unix.Stat_t
	if err := unix.Fstat(fd, &opened); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if int(opened.Uid) != os.Geteuid() {
		return nil, errInUse
	}
	if err := filelock.TryLock(f); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			return nil, errInUse
		}
		return nil, err
	}
	// It may have been removed, and its name be another's, in between.
	if err := unix.Lstat(dir, &named); err != nil || named.Ino != opened.Ino || named.Dev != opened.Dev {
		return nil, fs.ErrNotExist
	}
	return f, nil
}
