//go:build unix && !darwin && !freebsd && !netbsd

package config

import (
	"io/fs"
	"syscall"
)

// changeTime is when the file's inode changed, which nobody can set: an edit
// that keeps the size and puts the time back is seen.
func changeTime(info fs.FileInfo) [2]int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return [2]int64{int64(st.Ctim.Sec), int64(st.Ctim.Nsec)} //nolint:unconvert // 32 bits on some machines
	}
	return [2]int64{}
}
