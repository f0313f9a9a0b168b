//go:build unix && !darwin && !freebsd && !netbsd

package config

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime is when the file's inode changed, which cannot be set: an edit that
// keeps the size and puts the time back is seen.
func changeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
