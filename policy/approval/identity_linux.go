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
	return Identity{Device: uint64(st.Dev), Inode: st.Ino, Changed: st.Ctim.Nano()} //nolint:unconvert // not on every architecture
}
