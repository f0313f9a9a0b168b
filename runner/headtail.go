package runner

import (
	"errors"
	"fmt"
	"os"
)

// A HeadTail is a file of the beginning and the end of what is written to it. The beginning
// is there at once, the end with Close.
type HeadTail struct {
	f       *os.File
	max     int
	head    int
	tail    []byte
	omitted int64
}

// NewHeadTail makes the file, or empties it. It keeps so many bytes of each end.
func NewHeadTail(file string, most int) (*HeadTail, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &HeadTail{f: f, max: most}, nil
}

// Write never fails for want of room.
func (h *HeadTail) Write(p []byte) (int, error) {
	n := min(len(p), h.max-h.head)
	if n > 0 {
		if _, err := h.f.Write(p[:n]); err != nil {
			return 0, err
		}
		h.head += n
	}
	h.tail = append(h.tail, p[n:]...)
	if len(h.tail) > 2*h.max {
		h.trim()
	}
	return len(p), nil
}

func (h *HeadTail) trim() {
	if over := len(h.tail) - h.max; over > 0 {
		h.omitted += int64(over)
		h.tail = h.tail[:copy(h.tail, h.tail[over:])]
	}
}

// Close writes the end.
func (h *HeadTail) Close() error {
	h.trim()
	var err error
	if h.omitted > 0 {
		_, err = fmt.Fprintf(h.f, "\n[… %d bytes left out …]\n", h.omitted)
	}
	if err == nil {
		_, err = h.f.Write(h.tail)
	}
	return errors.Join(err, h.f.Close())
}
