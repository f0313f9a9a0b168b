package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
)

// DefaultLines is the number of lines that Lines returns by default. MaxLinesBytes
// always bounds its result.
const (
	DefaultLines  = 200
	MaxLinesBytes = 1 << 20
)

// LinesOptions choose a window of the output:
//
//   - neither: the last DefaultLines lines
//   - Offset: from that line on, counted from 0
//   - Limit: the last so many lines
//   - both: so many lines from that one on
type LinesOptions struct {
	Offset, Limit *int
}

// Lines is a window of the output, by line. The numbers count the lines that are kept
// now. If the log has a gap, the lines before and after it are neighbours. Between them
// is a line that says how much is missing; it is not counted.
type Lines struct {
	Text  string `json:"text"`
	From  int    `json:"from"`  // the first line in Text, from 0
	Count int    `json:"count"` // of lines in Text
	Total int    `json:"totalLines"`
	// Cut reports that Text ended at MaxLinesBytes. The rest of the window begins at
	// From+Count.
	Cut bool `json:"cut,omitempty"`
	// Default reports that neither offset nor limit was given, and that there are more
	// lines than were returned.
	Default      bool  `json:"default,omitempty"`
	OutputBytes  int64 `json:"outputBytes"`
	OmittedBytes int64 `json:"omittedBytes,omitempty"`
}

// Lines returns a window of the output so far.
func (s *Session) Lines(ctx context.Context, o LinesOptions) (Lines, error) {
	if o.Offset != nil && *o.Offset < 0 || o.Limit != nil && *o.Limit < 0 {
		return Lines{}, corral.Errorf(corral.ErrInvalid, "count lines from 0", "the offset or the limit is negative")
	}
	if s.neverBegan() {
		return Lines{}, nil
	}
	return readLog(ctx, s.Log(), o)
}

func readLog(ctx context.Context, log corral.Log, o LinesOptions) (Lines, error) {
	st, err := log.Stat(ctx)
	if err != nil {
		return Lines{}, err
	}
	got := Lines{OutputBytes: st.Size, OmittedBytes: st.Gap()}
	var count lineCounter
	if err := scan(ctx, log, st.Size, &count); err != nil {
		return Lines{}, err
	}
	got.Total = count.total()
	from, to := window(got.Total, o)
	got.Default = o.Offset == nil && o.Limit == nil && to-from < got.Total

	w := windowReader{from: from, to: to}
	if err := scan(ctx, log, st.Size, &w); err != nil && !errors.Is(err, errWindowRead) {
		return Lines{}, err
	}
	got.From, got.Count, got.Cut = from, w.count(), w.cut
	var d words.Decoder
	got.Text = d.Decode(corral.Stdout, w.text) + d.Flush(corral.Stdout)
	return got, nil
}

// window returns the range [from, to) of lines, in a log with total lines.
func window(total int, o LinesOptions) (from, to int) {
	switch {
	case o.Offset == nil && o.Limit == nil:
		return max(0, total-DefaultLines), total
	case o.Offset == nil:
		return max(0, total-*o.Limit), total
	case o.Limit == nil:
		return min(*o.Offset, total), total
	default:
		from = min(*o.Offset, total)
		return from, from + min(*o.Limit, total-from)
	}
}

// A scanner reads a log from its start.
type scanner interface {
	output(p []byte) error
	gap(n int64) error
}

// scan passes the kept output up to an offset to a scanner.
func scan(ctx context.Context, log corral.Log, end int64, to scanner) error {
	buf := make([]byte, max(0, min(end, 64<<10)))
	for off := int64(0); off < end; {
		c, err := log.Read(ctx, off, buf[:min(int64(len(buf)), end-off)])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Offset > off {
			if err := to.gap(c.Offset - off); err != nil {
				return err
			}
		}
		if c.Offset >= end {
			return nil
		}
		if err := to.output(c.Data); err != nil {
			return err
		}
		off = c.Next()
	}
	return nil
}

// lineCounter counts lines. A gap ends a line.
type lineCounter struct {
	lines int
	open  bool // a line has begun and not ended
}

func (c *lineCounter) output(p []byte) error {
	if len(p) > 0 {
		c.lines += bytes.Count(p, []byte{'\n'})
		c.open = p[len(p)-1] != '\n'
	}
	return nil
}

func (c *lineCounter) gap(int64) error {
	if c.open {
		c.lines, c.open = c.lines+1, false
	}
	return nil
}

func (c *lineCounter) total() int {
	if c.open {
		return c.lines + 1
	}
	return c.lines
}

var errWindowRead = errors.New("the window has been read")

// windowReader collects the lines [from, to).
type windowReader struct {
	lineCounter
	from, to int
	text     []byte
	cut      bool
}

// count returns the number of collected lines.
func (w *windowReader) count() int { return max(0, min(w.total(), w.to)-w.from) }

func (w *windowReader) output(p []byte) error {
	for len(p) > 0 {
		if w.lines >= w.to {
			return errWindowRead
		}
		n := bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			n = len(p)
		}
		if w.lines >= w.from {
			if room := MaxLinesBytes - len(w.text); n > room {
				w.cut = true
				if len(w.text) == 0 || !bytes.HasSuffix(w.text, []byte{'\n'}) {
					w.text = append(w.text, p[:max(room, 0)]...)
					w.open = true
				}
				return errWindowRead
			}
			w.text = append(w.text, p[:n]...)
		}
		if err := w.lineCounter.output(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *windowReader) gap(n int64) error {
	if err := w.lineCounter.gap(n); err != nil {
		return err
	}
	if w.lines >= w.from && w.lines < w.to {
		if len(w.text) > 0 && !bytes.HasSuffix(w.text, []byte{'\n'}) {
			w.text = append(w.text, '\n')
		}
		w.text = fmt.Appendf(w.text, "[… %d bytes left out …]\n", n)
	}
	return nil
}
