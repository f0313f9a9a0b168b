//go:build !unix || darwin || freebsd || netbsd

package config

import (
	"io/fs"
	"time"
)

// changeTime is the time of the last write: that has to do here.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }
