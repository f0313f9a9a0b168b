package api

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/corral-exec/corral"
)

// A log is sent as a sequence of frames: a header of HeaderLen bytes (stream, one byte;
// offset in the log, 8 bytes; length, 4 bytes; big endian) and that many bytes of
// output. The offset of a frame may be beyond the end of the frame before it: the bytes
// between are no longer kept.
//
// Every sequence ends with an empty frame that gives the reason; a sequence without one
// was cut.
const (
	HeaderLen = 13
	MaxFrame  = 256 << 10 // bytes of output in a frame

	// StreamEnd: the log has ended at this offset.
	StreamEnd corral.Stream = 0
	// StreamPause: the log goes on at this offset, and this answer does not.
	StreamPause corral.Stream = 255
)

// maxOffset bounds offsets, so that adding to one never overflows.
const maxOffset = 1 << 62

// A Header begins a frame.
type Header struct {
	Stream corral.Stream
	Offset int64
	Length int
}

// Put encodes h into the first HeaderLen bytes of buf.
func (h Header) Put(buf []byte) {
	buf[0] = byte(h.Stream)
	binary.BigEndian.PutUint64(buf[1:], uint64(h.Offset))
	binary.BigEndian.PutUint32(buf[9:], uint32(h.Length))
}

// Last reports whether nothing follows the frame.
func (h Header) Last() bool { return h.Stream == StreamEnd || h.Stream == StreamPause }

// ErrFrame is wrapped by the errors about invalid frames.
var ErrFrame = errors.New("malformed log frame")

// ParseHeader decodes the first HeaderLen bytes of buf.
func ParseHeader(buf []byte) (Header, error) {
	if len(buf) < HeaderLen {
		return Header{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrFrame, len(buf), HeaderLen)
	}
	offset, length := binary.BigEndian.Uint64(buf[1:]), binary.BigEndian.Uint32(buf[9:])
	h := Header{Stream: corral.Stream(buf[0]), Offset: int64(offset), Length: int(length)}
	switch {
	case offset > maxOffset:
		return Header{}, fmt.Errorf("%w: offset %d", ErrFrame, offset)
	case length > MaxFrame:
		return Header{}, fmt.Errorf("%w: %d bytes, more than %d", ErrFrame, length, MaxFrame)
	case h.Last() && length != 0:
		return Header{}, fmt.Errorf("%w: the last one has %d bytes", ErrFrame, length)
	case !h.Last() && h.Stream != corral.Stdout && h.Stream != corral.Stderr:
		return Header{}, fmt.Errorf("%w: stream %d", ErrFrame, h.Stream)
	case !h.Last() && length == 0:
		return Header{}, fmt.Errorf("%w: no bytes", ErrFrame)
	}
	return h, nil
}

// A FrameReader reads the frames of an answer. It buffers one header and the buffer of
// bufio, however long the frames are.
type FrameReader struct {
	r       *bufio.Reader
	header  Header
	left    int
	scratch [HeaderLen]byte
}

// NewFrameReader reads from r.
func NewFrameReader(r io.Reader) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, 32<<10)}
}

// Next skips the unread rest of the last frame, and returns the header of the next one.
// The error is io.ErrUnexpectedEOF if the sequence was cut. Do not call Next after a
// frame that is Last.
func (f *FrameReader) Next() (Header, error) {
	if f.left > 0 {
		if _, err := f.r.Discard(f.left); err != nil {
			return Header{}, cut(err)
		}
		f.left = 0
	}
	if _, err := io.ReadFull(f.r, f.scratch[:]); err != nil {
		return Header{}, cut(err)
	}
	h, err := ParseHeader(f.scratch[:])
	if err != nil {
		return Header{}, err
	}
	f.header, f.left = h, h.Length
	return h, nil
}

// Chunk returns output of the current frame, or of the next one if that was read to its
// end: as much as is there and fits into buf, which must not be empty. The error is
// io.EOF at StreamEnd and ErrPause at StreamPause; then the chunk only has the offset.
func (f *FrameReader) Chunk(buf []byte) (corral.Chunk, error) {
	if f.left == 0 {
		h, err := f.Next()
		switch {
		case err != nil:
			return corral.Chunk{}, err
		case h.Stream == StreamEnd:
			return corral.Chunk{Offset: h.Offset}, io.EOF
		case h.Stream == StreamPause:
			return corral.Chunk{Offset: h.Offset}, ErrPause
		}
	}
	n, err := f.r.Read(buf[:min(len(buf), f.left)])
	if n == 0 {
		return corral.Chunk{}, cut(err)
	}
	c := corral.Chunk{Stream: f.header.Stream, Offset: f.header.Offset + int64(f.header.Length-f.left), Data: buf[:n]}
	f.left -= n
	return c, nil
}

// Rest returns the number of unread bytes of the last frame.
func (f *FrameReader) Rest() int { return f.left }

// AtEnd reads the end of the answer, after a frame that is Last, so that the connection
// can be used again. It returns false if there is more data, or the answer was cut.
func (f *FrameReader) AtEnd() bool {
	_, err := f.r.ReadByte()
	return errors.Is(err, io.EOF)
}

// ErrPause ends a sequence of frames before the log has ended.
var ErrPause = errors.New("no more of the log in this answer")

// cut turns an end of file between frames into an error: the log has not ended.
func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
