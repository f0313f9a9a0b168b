//go:build unix

package approval

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

const noFollow = unix.O_NOFOLLOW

// openNoFollow opens a file that is no symbolic link. It never waits for the other end of
// a pipe.
func openNoFollow(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, corral.Errorf(corral.ErrDenied, "put the file itself there: nothing is allowed until then", "%w",
			&FileError{File: path, Text: "it is a symlink, and its owner decides what it says"})
	}
	return f, err
}

// checkOwner refuses a file that another user can write.
func checkOwner(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return notOurs(path, "is not a regular file")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return notOurs(path, "can be written by others ("+info.Mode().String()+")")
	}
	return checkUser(path, info)
}

// checkDir refuses a directory in which another user can put files.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return notOurs(dir, "can be written by others ("+info.Mode().String()+")")
	}
	return checkUser(dir, info)
}

func checkUser(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return notOurs(path, "belongs to another user")
	}
	return nil
}
