//go:build linux

package login

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A watch is a file whose state decides what a profile does.
type watch struct {
	path string
	// content: what is in the file counts, or which entries the directory has. Else
	// that it is there, what it is and who may use it.
	content bool
	state   string
}

// look returns the state of the watched file, and when it last changed. A file that
// cannot be looked at has a state too.
func (w watch) look() (state string, changed time.Time) {
	var st unix.Stat_t
	if err := unix.Stat(w.path, &st); err != nil {
		return err.Error(), time.Time{}
	}
	var room [160]byte
	b := room[:0]
	num := func(n int64) { b = append(strconv.AppendInt(b, n, 36), ' ') }
	num(int64(st.Mode))
	num(int64(st.Uid))
	num(int64(st.Gid))
	if !w.content {
		return string(b), time.Time{}
	}
	num(int64(st.Dev))
	num(int64(st.Ino))
	num(st.Size)
	num(st.Mtim.Nano())
	num(st.Ctim.Nano())
	return string(b), time.Unix(0, st.Ctim.Nano())
}

// current reports whether the file is as it was.
func (w watch) current() bool {
	state, _ := w.look()
	return state == w.state
}
