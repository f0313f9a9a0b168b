//go:build unix

package policy

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const nonblock = unix.O_NONBLOCK

func executable(path string) error {
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &os.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}

// realPath is filepath.EvalSymlinks. A path without links, as most are, costs no memory.
func realPath(path string) (string, error) {
	if path == "" || path[0] != '/' || filepath.Clean(path) != path {
		return filepath.EvalSymlinks(path)
	}
	for end := 1; end < len(path); {
		next := strings.IndexByte(path[end:], '/')
		if next < 0 {
			next = len(path) - end
		}
		if kind, err := typeOf(path[:end+next]); err != nil || kind == fs.ModeSymlink {
			return filepath.EvalSymlinks(path)
		}
		end += next + 1
	}
	return path, nil
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
