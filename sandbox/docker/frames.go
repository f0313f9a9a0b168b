package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/corral-exec/corral"
)

// frames takes apart the stream in which the engine mixes standard output and
// standard error: frames of an 8-byte header (the stream, three zeros, the
// length in big-endian order) and that many bytes. It holds no frame in memory,
// whatever length its header gives. Source: the Docker Engine API, "Attach to a
// container", stream format.
type frames struct {
	r      io.Reader
	stream int
	left   uint32 // bytes of the current frame
}

// engineError is the stream on which the engine says what went wrong with it.
const engineError = 3

// maxEngineError bounds what is kept of that.
const maxEngineError = 4 << 10

var errFrame = errors.New("the engine's output stream is malformed")

// Read returns what came next, of one stream. io.EOF comes only between frames.
func (f *frames) Read(p []byte) (n, stream int, err error) {
	if len(p) == 0 {
		return 0, f.stream, nil
	}
	for f.left == 0 {
		if err := f.header(); err != nil {
			return 0, 0, err
		}
	}
	n, err = f.r.Read(p[:min(int64(len(p)), int64(f.left))])
	f.left -= uint32(n)
	if errors.Is(err, io.EOF) {
		err = nil // what follows tells whether it is the end
		if f.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, f.stream, err
}

func (f *frames) header() error {
	var h [8]byte
	if _, err := io.ReadFull(f.r, h[:]); err != nil {
		return err // io.EOF only if not one byte came
	}
	if h[1]|h[2]|h[3] != 0 {
		return fmt.Errorf("%w: header % x", errFrame, h)
	}
	size := binary.BigEndian.Uint32(h[4:])
	switch f.stream = int(h[0]); f.stream {
	case int(corral.Stdout), int(corral.Stderr):
		f.left = size
		return nil
	case engineError:
		text, err := io.ReadAll(io.LimitReader(f.r, min(int64(size), maxEngineError)))
		return errors.Join(fmt.Errorf("the engine gave up the command's output: %q", text), err)
	}
	return fmt.Errorf("%w: stream %d", errFrame, f.stream)
}
