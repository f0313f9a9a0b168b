package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"

	"github.com/corral-exec/corral/internal/packed"
)

// Frames carries messages over a byte stream.
//
// A frame is a message and its CRC-32C, big-endian, followed by the eight bytes of
// delimiter. Within a frame a zero byte follows wherever the first seven of those would
// appear (stem), so delimiter is always the end of a frame. A reader finds its place in a
// stream that it joins in the middle, or into which the last writer died half way
// through a frame: bytes up to the next delimiter fail the checksum and are dropped.
// Nothing has to be looked at byte by byte: the search for stem, which next to no
// message contains, and the checksum are the processor's own instructions.
type Frames struct {
	r io.Reader
	c io.Closer

	// Strict makes a frame that fails the checksum an error once the first
	// good one was read. Without it such frames are dropped and counted.
	Strict bool

	in      []byte // buffer of what was read
	from    int    // in[from:to] was not taken yet
	to      int
	seen    int // no frame ends before in[seen]
	dropped int
	synced  bool

	data  []byte // buffer of what was unpacked
	packs atomic.Bool

	turn   chan struct{} // holds a token while a message is sent; guards what follows
	w      io.Writer
	out    []byte
	packed []byte
	err    error
}

// delimiter ends a frame: stem and a one. Its bytes are all different, so that no two
// stems overlap, and rare: five of them are in no text that is UTF-8.
const (
	delimiter = stem + "\x01"
	stem      = "\xf5\xfe\xf9\xc0\x9d\xc1\xb7"
)

const (
	sumSize = 4

	// maxFrame bounds a frame with its delimiter: a zero byte may follow each stem.
	maxFrame = MaxMessage + sumSize + (MaxMessage+sumSize)/len(stem) + len(delimiter)

	// inSize is the size of the buffer for what is read. It grows up to keep while the
	// other side sends more at once, and beyond that for a larger frame.
	inSize = 32 << 10

	// keep bounds the buffers that are kept for the next message.
	keep = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewFrames makes a connection of a reader and a writer; c ends both.
func NewFrames(r io.Reader, w io.Writer, c io.Closer) *Frames {
	// The first delimiter ends whatever a writer before us left unfinished.
	return &Frames{r: r, w: w, c: c, turn: make(chan struct{}, 1), out: []byte(delimiter)}
}

// Pack sets whether Data is packed from now on, which the other end has to know; see
// [FeaturePacked]. What a Frames receives it unpacks in any case.
func (f *Frames) Pack(on bool) { f.packs.Store(on) }

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
	if err := f.encode(m); err != nil || ctx.Done() == nil {
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

// encode adds the frame of a message to what is written next.
func (f *Frames) encode(m *Message) error {
	if f.err != nil {
		return f.err
	}
	start := len(f.out)
	out := f.pack(m).Append(f.out)
	if size := len(out) - start; size > MaxMessage {
		f.out = shrink(out, start)
		return fmt.Errorf("%w: %d bytes, more than %d", ErrMalformed, size, MaxMessage)
	}
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(out[start:], castagnoli))
	f.out = append(stuff(out, start), delimiter...)
	return nil
}

// pack is m, or the same message with its Data packed.
func (f *Frames) pack(m *Message) *Message {
	if !f.packs.Load() {
		return m
	}
	var ok bool
	if f.packed, ok = packed.Append(f.packed[:0], m.Data); !ok {
		return m
	}
	p := *m
	p.Data, p.Packed = nil, f.packed
	return &p
}

// unpack undoes pack.
func (f *Frames) unpack(m *Message) (err error) {
	if len(m.Packed) == 0 {
		return nil
	}
	if m.Data, err = packed.Open(f.data, m.Packed, packed.Most); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	f.data, m.Packed = m.Data, nil
	return nil
}

// write writes the frame.
func (f *Frames) write() error {
	_, f.err = f.w.Write(f.out)
	f.out = shrink(f.out, 0)
	return f.err
}

// shrink is a buffer with its first n bytes alone. One that a rare large message grew is
// let go of.
func shrink(b []byte, n int) []byte {
	if cap(b) > keep {
		return append([]byte(nil), b[:n]...)
	}
	return b[:n]
}

// Waiting tells whether more was read than has been received.
func (f *Frames) Waiting() bool { return f.to > f.from }

// Recv returns the next good frame's message.
func (f *Frames) Recv() (*Message, []int, error) {
	for {
		frame, err := f.next()
		if err != nil {
			return nil, nil, err
		}
		if len(frame) == 0 {
			continue
		}
		m, err := decode(frame)
		if err == nil {
			err = f.unpack(m)
		}
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

// next returns what comes before the next delimiter. It is valid until the next call.
func (f *Frames) next() ([]byte, error) {
	for {
		if end := f.find(); end >= 0 {
			frame := f.in[f.from:end]
			f.from = end + len(delimiter)
			f.seen = f.from
			return frame, nil
		}
		if f.to-f.from >= maxFrame {
			return nil, fmt.Errorf("%w: a frame of more than %d bytes", ErrMalformed, maxFrame)
		}
		if err := f.fill(); err != nil {
			return nil, err
		}
	}
}

// find returns where the next delimiter is in what was read, or -1.
func (f *Frames) find() int {
	for {
		i := bytes.Index(f.in[f.seen:f.to], []byte(stem))
		if i < 0 {
			f.seen = max(f.seen, f.to-len(stem)+1)
			return -1
		}
		f.seen += i
		last := f.seen + len(stem)
		switch {
		case last >= f.to:
			return -1
		case f.in[last] == delimiter[len(stem)]:
			return f.seen
		}
		f.seen = last
	}
}

// fill reads more.
func (f *Frames) fill() error {
	left := f.to - f.from
	switch room := len(f.in) - f.to; {
	case left == 0 && (f.in == nil || len(f.in) > keep):
		f.move(make([]byte, inSize))
	case room > len(f.in)/4:
	case left <= len(f.in)/2:
		f.move(f.in)
	case room == 0:
		f.move(make([]byte, min(2*len(f.in), maxFrame)))
	}
	for range maxEmptyReads {
		n, err := f.r.Read(f.in[f.to:])
		if n > 0 { // an error comes again
			if f.to += n; f.to == len(f.in) && len(f.in) < keep {
				f.move(make([]byte, 2*len(f.in)))
			}
			return nil
		}
		switch {
		case errors.Is(err, io.EOF) && f.to > f.from:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// maxEmptyReads is how often a reader may read nothing, and say nothing of it.
const maxEmptyReads = 100

// move moves what was not taken yet to the beginning of a buffer.
func (f *Frames) move(to []byte) {
	n := copy(to, f.in[f.from:f.to])
	f.in, f.seen = to, f.seen-f.from
	f.from, f.to = 0, n
}

// decode is the message of a frame. The frame is changed, and its Data is part of it.
func decode(frame []byte) (*Message, error) {
	raw, err := unstuff(frame)
	if err != nil {
		return nil, err
	}
	if len(raw) < sumSize {
		return nil, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, len(raw))
	}
	body, sum := raw[:len(raw)-sumSize], binary.BigEndian.Uint32(raw[len(raw)-sumSize:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: wrong checksum", ErrMalformed)
	}
	return Parse(body)
}

// stuff puts a zero byte after each stem in b[start:].
func stuff(b []byte, start int) []byte {
	n := bytes.Count(b[start:], []byte(stem))
	if n == 0 {
		return b
	}
	p := append([]byte(nil), b[start:]...)
	b = b[:start]
	for range n {
		i := bytes.Index(p, []byte(stem)) + len(stem)
		b = append(append(b, p[:i]...), 0)
		p = p[i:]
	}
	return append(b, p...)
}

// unstuff undoes stuff, in place.
func unstuff(p []byte) ([]byte, error) {
	var out []byte
	for {
		i := bytes.Index(p, []byte(stem))
		switch {
		case i < 0 && out == nil:
			return p, nil
		case i < 0:
			return append(out, p...), nil
		}
		if i += len(stem); i == len(p) || p[i] != 0 {
			return nil, fmt.Errorf("%w: stuffing", ErrMalformed)
		}
		if out == nil {
			out = p[:i]
		} else {
			out = append(out, p[:i]...)
		}
		p = p[i+1:]
	}
}
