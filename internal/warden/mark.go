//go:build linux

package warden

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"golang.org/x/sys/unix"
)

// A mark is a limit of real-time processor time (RLIMIT_RTTIME) that is
// unmistakable. Limits are inherited through fork, exec, setsid and env -i; this
// one only concerns real-time processes, and is still tens of thousands of
// years.
func (s *Supervisor) newMark() uint64 {
	if s.maxMark < minMark {
		return 0
	}
	half := s.maxMark / 2
	return half + rand.Uint64N(half)
}

// learnMarks finds out which marks this process's children can have.
func (s *Supervisor) learnMarks() {
	var lim unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim); err != nil {
		return
	}
	s.hardMark = lim.Max
	// As if to set it: where limits cannot be set there are no marks.
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, &lim, nil); err == nil {
		s.maxMark = min(lim.Max, 1<<62)
	}
}

// minMark is from where on a mark is too long a time to matter, in
// microseconds, and unlikely to be anybody else's.
const minMark = 1 << 56

func readMark(dir string) uint64 {
	b, err := readFile(dir+"/limits", 8192)
	if err != nil {
		return 0
	}
	_, line, ok := bytes.Cut(b, []byte("Max realtime timeout"))
	if f := bytes.Fields(line); ok && len(f) > 1 {
		if v, err := strconv.ParseUint(string(f[0]), 10, 64); err == nil {
			return v
		}
	}
	return 0
}
