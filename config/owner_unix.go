//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner lets root edit a file that is another account's.
func keepOwner(f *os.File, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
