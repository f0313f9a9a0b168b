package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Frames carries messages over a byte stream.
//
// A frame is the message followed by its CRC-32C, big-endian, then byte-stuffed
// by COBS (Cheshire and Baker, 1999) so that it holds no zero byte, then one
// zero byte. A zero byte is therefore always the end of a frame, and a reader
// finds its place in a stream that it joins in the middle, or into which the
// last writer died half way through a frame: bytes up to the next zero fail
// the checksum and are dropped.
type Frames struct {
	r *bufio.Reader
	c io.Closer

	// Strict makes a frame that fails the checksum an error once the first
	// good one was read. Without it such frames are dropped and counted.
	Strict bool

	in      []byte
	dropped int
	synced  bool

	turn chan struct{} // holds a token while a message is sent; guards what follows
	w    io.Writer
	raw  []byte
	out  []byte
	err  error
}

// maxFrame bounds a stuffed frame: COBS adds a byte for each 254.
const maxFrame = MaxMessage + 4 + MaxMessage/254 + 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewFrames makes a connection of a reader and a writer; c ends both.
func NewFrames(r io.Reader, w io.Writer, c io.Closer) *Frames {
	// The first byte ends whatever a writer before us left unfinished.
	return &Frames{r: bufio.NewReaderSize(r, 64<<10), w: w, c: c, turn: make(chan struct{}, 1), out: []byte{0}}
}

// PassesFiles is false.
func (f *Frames) PassesFiles() bool { return false }

// Close ends both directions.
func (f *Frames) Close() error { return f.c.Close() }

// Dropped is how many frames were dropped for a bad checksum.
func (f *Frames) Dropped() int { return f.dropped }

// Send writes one frame, in one Write.
func (f *Frames) Send(m *Message, fds ...int) error {
	return f.SendContext(context.Background(), m, fds...)
}

// SendContext implements ContextSender. A frame that has begun is written to its
// end.
func (f *Frames) SendContext(ctx context.Context, m *Message, fds ...int) error {
	if len(fds) > 0 {
		return ErrNoFiles
	}
	if err := take(ctx, f.turn); err != nil {
		return err
	}
	if err := f.stuff(m); err != nil || ctx.Done() == nil {
		defer f.done()
		if err == nil {
			err = f.write()
		}
		return err
	}
	written := make(chan error, 1)
	go func() {
		defer f.done()
		written <- f.write()
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrSending, ctx.Err())
	}
}

func (f *Frames) done() { <-f.turn }

// stuff makes the frame of a message.
func (f *Frames) stuff(m *Message) error {
	if f.err != nil {
		return f.err
	}
	f.raw = m.Append(f.raw[:0])
	if len(f.raw) > MaxMessage {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrMalformed, len(f.raw), MaxMessage)
	}
	f.raw = binary.BigEndian.AppendUint32(f.raw, crc32.Checksum(f.raw, castagnoli))
	f.out = append(appendStuffed(f.out, f.raw), 0)
	f.raw = shrink(f.raw)
	return nil
}

// write writes the frame.
func (f *Frames) write() error {
	_, f.err = f.w.Write(f.out)
	f.out = shrink(f.out)
	return f.err
}

// shrink empties a buffer and lets go of one that a rare large message grew.
func shrink(b []byte) []byte {
	if cap(b) > 256<<10 {
		return nil
	}
	return b[:0]
}

// Recv returns the next good frame's message.
func (f *Frames) Recv() (*Message, []int, error) {
	for {
		frame, err := f.readFrame()
		if err != nil {
			return nil, nil, err
		}
		if len(frame) == 0 {
			continue
		}
		m, err := decodeFrame(frame)
		f.in = shrink(f.in)
		switch {
		case err == nil:
			f.synced = true
			return m, nil, nil
		case f.Strict && f.synced:
			return nil, nil, err
		}
		f.dropped++
	}
}

func (f *Frames) readFrame() ([]byte, error) {
	f.in = f.in[:0]
	for {
		part, err := f.r.ReadSlice(0)
		if len(f.in)+len(part) > maxFrame {
			return nil, fmt.Errorf("%w: a frame of more than %d bytes", ErrMalformed, maxFrame)
		}
		f.in = append(f.in, part...)
		switch {
		case err == nil:
			return f.in[:len(f.in)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(f.in) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

func decodeFrame(frame []byte) (*Message, error) {
	raw, err := unstuff(frame)
	if err != nil {
		return nil, err
	}
	if len(raw) < 4 {
		return nil, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, len(raw))
	}
	body, sum := raw[:len(raw)-4], binary.BigEndian.Uint32(raw[len(raw)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: wrong checksum", ErrMalformed)
	}
	return Parse(body)
}

// appendStuffed appends p to b without zero bytes: each group is a length byte
// n and n-1 bytes, followed by a zero that is not written unless n is 255 or
// the input ends.
func appendStuffed(b, p []byte) []byte {
	for {
		// Files and memory are full of zeros.
		for len(p) > 0 && p[0] == 0 {
			n := countOf(p, 0)
			b = append(b, ones[:n]...)
			p = p[n:]
		}
		n := bytes.IndexByte(p[:min(len(p), 254)], 0)
		switch {
		case n >= 0: // n bytes, then a zero
			b = append(append(b, byte(n+1)), p[:n]...)
			p = p[n+1:]
		case len(p) > 254: // a full group, and more
			b = append(append(b, 255), p[:254]...)
			p = p[254:]
		default: // the rest
			return append(append(b, byte(len(p)+1)), p...)
		}
	}
}

var zeros, ones [1 << 10]byte

func init() {
	for i := range ones {
		ones[i] = 1
	}
}

// countOf is how many bytes at the beginning of p are c, up to the length of
// zeros and ones.
func countOf(p []byte, c byte) int {
	n := 0
	for n < min(len(p), len(zeros)) && p[n] == c {
		n++
	}
	return n
}

// unstuff undoes appendStuffed, in place.
func unstuff(p []byte) ([]byte, error) {
	out := p[:0]
	for len(p) > 0 {
		if p[0] == 1 {
			n := countOf(p, 1)
			if p = p[n:]; len(p) == 0 {
				n--
			}
			out = append(out, zeros[:n]...)
			continue
		}
		n := int(p[0])
		if n == 0 || n > len(p) {
			return nil, fmt.Errorf("%w: stuffing", ErrMalformed)
		}
		out = append(out, p[1:n]...)
		p = p[n:]
		if n < 255 && len(p) > 0 {
			out = append(out, 0)
		}
	}
	return out, nil
}
