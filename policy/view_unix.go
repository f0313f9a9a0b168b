//go:build unix

package policy

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const nonblock = unix.O_NONBLOCK

func executable(path string) error {
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &os.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}

func typeOf(path string) (fs.FileMode, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	for err == unix.EINTR { // as os does
		err = unix.Lstat(path, &st)
	}
	switch {
	case err == unix.ENOENT:
		return 0, fs.ErrNotExist
	case err != nil:
		return 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0, nil
	case unix.S_IFLNK:
		return fs.ModeSymlink, nil
	}
	return fs.ModeIrregular, nil // no program
}
