//go:build unix

package files

import (
	"io/fs"
	"syscall"
)

const openNonblock = syscall.O_NONBLOCK

func ownerOf(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}
