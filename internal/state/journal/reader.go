package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxLine bounds a line, in bytes: the largest command, escaped. A longer line
	// counts as damaged.
	MaxLine = 16 << 20
	// Piece is the size of a read, in bytes, unless a line is longer.
	Piece = 64 << 10
)

// ErrLine is wrapped by the error of a Reader without Damage.
var ErrLine = errors.New("the line is not as it was written")

// A Line is one line of a journal.
type Line struct {
	Text  []byte // without its end; valid during the call
	At    int64  // offset in the file at which it begins
	Ended bool   // false: the last line, which may be incomplete
}

// A Reader reads a journal line by line, even while others append to it. It skips empty
// lines.
type Reader struct {
	Each   func(Line) error // handles a line; an error says why it is damaged
	Damage *Damage          // collects damaged lines; nil: stop at the first one
	At     int64            // offset of the next line
	number int
}

// Read reads the lines from At on. It leaves an incomplete last line, since a writer
// may be about to finish it; with all, which says that there is no writer, it reads
// that line too.
func (r *Reader) Read(f io.ReaderAt, size int64, all bool) error {
	in := bufio.NewReaderSize(io.NewSectionReader(f, r.At, size-r.At), int(min(Piece, max(0, size-r.At))))
	var text []byte
	for long := false; ; {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case err == nil || len(text) > MaxLine || all && errors.Is(err, io.EOF):
			if lerr := r.line(text, err == nil, long); lerr != nil {
				return lerr
			}
			long, text = err != nil, text[:0]
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

func (r *Reader) line(text []byte, ended, long bool) error {
	l := Line{bytes.TrimSuffix(text, []byte{'\n'}), r.At, ended}
	r.At += int64(len(text))
	r.number++
	if len(l.Text) == 0 {
		return nil
	}
	err := errors.New("it is too long")
	if !long && len(l.Text) <= MaxLine {
		err = r.Each(l)
	}
	switch {
	case err == nil:
	case r.Damage == nil:
		return fmt.Errorf("%d (byte %d): %w: %w", r.number, l.At, ErrLine, err)
	default:
		r.Damage.Add(l.Text)
	}
	return nil
}
