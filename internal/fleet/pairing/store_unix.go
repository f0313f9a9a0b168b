//go:build unix

package pairing

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow also never waits for the other end of a pipe.
const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// checkFile refuses a file that another user can have read or written.
func checkFile(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return refuse(path, "can be used by others ("+info.Mode().String()+")")
	}
	return checkUser(path, info)
}

// checkDir refuses a directory in which another user can put files.
func checkDir(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 {
		return refuse(path, "can be written by others ("+info.Mode().String()+")")
	}
	return checkUser(path, info)
}

func checkUser(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return refuse(path, "belongs to another user")
	}
	return nil
}

func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
