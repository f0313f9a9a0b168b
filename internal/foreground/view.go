package foreground

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/terminal"
)

// A View writes the output of a session. Output to a terminal is filtered: it reaches
// only the screen, not the clipboard or the title.
type View struct {
	Streams
	Raw bool // do not filter

	screen  bool // the program has the whole terminal
	answers bool // the terminal's answers go to the program
	filters [2]terminal.Filter
}

// Write prints output that was read at an offset.
func (v *View) Write(c corral.Chunk, off int64) error {
	if gap := c.Offset - off; gap > 0 {
		v.Warn(fmt.Sprintf("%d bytes of the output are missing here: the log keeps its beginning and its end.", gap))
	}
	out, filter := v.Out, &v.filters[0]
	if c.Stream == corral.Stderr {
		out, filter = v.Err, &v.filters[1]
	}
	data := c.Data
	if _, ok := terminal.Shows(out); ok && !v.Raw {
		filter.Screen, filter.Answers = v.screen, v.answers
		data = filter.Filter(data)
	}
	if _, err := out.Write(data); err != nil {
		return fmt.Errorf("cannot write the session's %s: %w", c.Stream, err)
	}
	return nil
}

// Copy prints a range of a log as it is written.
func (v *View) Copy(ctx context.Context, log corral.Log, from, until int64) error {
	buf := make([]byte, 64<<10)
	for from < until {
		c, err := log.Read(ctx, from, buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := v.Write(c, from); err != nil {
			return err
		}
		from = c.Next()
	}
	return nil
}

// LastLines returns the offset of the last n lines of a log. An incomplete line counts.
// It reads backwards, in steps that double.
func LastLines(ctx context.Context, log corral.Log, n int) (int64, error) {
	stat, err := log.Stat(ctx)
	if err != nil {
		return 0, err
	}
	begin := stat.Size // start of the part that was searched
	if n == 0 {
		return begin, nil
	}
	var ends []int64 // of lines in [begin, stat.Size), the last first
	for step := int64(16 << 10); begin > 0; step *= 2 {
		from := max(begin-step, 0)
		found, err := lineEnds(ctx, log, from, begin)
		if err != nil {
			return 0, err
		}
		for i := len(found) - 1; i >= 0; i-- {
			if found[i] == stat.Size { // the last line's own
				continue
			}
			if ends = append(ends, found[i]); len(ends) == n {
				return found[i], nil
			}
		}
		begin = from
	}
	return 0, nil
}

// lineEnds returns the offsets after line feeds in a range.
func lineEnds(ctx context.Context, log corral.Log, from, until int64) ([]int64, error) {
	var ends []int64
	buf := make([]byte, 64<<10)
	for from < until {
		c, err := log.Read(ctx, from, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for i, b := range c.Data {
			if end := c.Offset + int64(i) + 1; b == '\n' && end <= until {
				ends = append(ends, end)
			}
		}
		from = c.Next()
	}
	return ends, nil
}
