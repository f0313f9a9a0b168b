//go:build darwin || freebsd || netbsd

package approval

import (
	"io/fs"
	"syscall"
)

func identify(info fs.FileInfo) Identity {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}
	}
	return Identity{Device: uint64(st.Dev), Inode: uint64(st.Ino), Changed: st.Ctimespec.Nano()} //nolint:gosec,unconvert // a number to compare
}
