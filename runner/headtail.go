package runner

import (
	"errors"
	"fmt"
	"os"
)

// A HeadTail is a file of the beginning and the end of what is written to it. The beginning
// is there at once, the end with Close.
type HeadTail struct {
	lastBytes
	f    *os.File
	head int
}

// NewHeadTail makes the file, or empties it. It keeps so many bytes of each end.
func NewHeadTail(file string, most int) (*HeadTail, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &HeadTail{lastBytes: lastBytes{max: most}, f: f}, nil
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
	h.add(p[n:])
	return len(p), nil
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
