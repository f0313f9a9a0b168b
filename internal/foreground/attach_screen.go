package foreground

import (
	"context"
	"io"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/terminal"
)

// findScreen finds out what the terminal has to be like for what is to be shown.
// A program that has a screen of its own draws it anew, and nothing of what it
// drew before is shown.
func (t *attachment) findScreen(ctx context.Context, log corral.Log) error {
	if _, ok := terminal.Shows(t.Out); !ok || !t.status.TTY {
		return nil
	}
	stat, err := log.Stat(ctx)
	if err != nil {
		return err
	}
	t.screen, t.now = &terminal.Screen{}, stat.Size
	then := t.screen.Clone()
	buf := make([]byte, 64<<10)
	for off := int64(0); off < t.now; {
		end := int64(len(buf))
		if off < t.next {
			end = min(end, t.next-off)
		}
		c, err := log.Read(ctx, off, buf[:min(end, t.now-off)])
		if err != nil {
			return err
		}
		_, _ = t.screen.Write(c.Data) // it never fails
		if off = c.Next(); off <= t.next {
			then = t.screen.Clone()
		}
	}
	if t.redraw = t.screen.FullScreen() && !t.status.Ended(); t.redraw {
		t.next = t.now
	} else {
		t.screen = then
	}
	return nil
}

// enter prepares our terminal; leave makes it again what it was.
func (t *attachment) enter() error {
	if t.screen == nil {
		return nil
	}
	_, err := io.WriteString(t.Out, t.screen.Enter())
	return err
}

func (t *attachment) leave() {
	if t.screen != nil {
		// A terminal that is gone needs nothing.
		_, _ = io.WriteString(t.Out, t.screen.Leave())
	}
}

// show shows output, and output that is history without what our terminal would
// answer: the answer would be typed.
func (t *attachment) show(c corral.Chunk) error {
	if t.screen == nil {
		return t.view.Write(c, t.next)
	}
	_, _ = t.screen.Write(c.Data) // it never fails
	old := min(max(t.now-c.Offset, 0), int64(len(c.Data)))
	data := t.past.Show(c.Data[:old])
	if c.Next() >= t.now {
		data = append(append(data, t.past.Rest()...), c.Data[old:]...)
	}
	return t.view.Write(corral.Chunk{Stream: c.Stream, Offset: c.Offset, Data: data}, t.next)
}

// redrawPause is how long a program has to see that its terminal has another
// size before it is of its right one. A program draws its whole screen only when
// the size changes, and it may be ours already.
const redrawPause = 100 * time.Millisecond

// draw has the program draw for a terminal of the size of ours.
func (t *attachment) draw(ctx context.Context) {
	if t.redraw {
		t.resizeTo(ctx, func(s *corral.Size) { s.Rows = max(1, s.Rows-1) })
		select {
		case <-time.After(redrawPause):
		case <-ctx.Done():
		}
	}
	t.resize(ctx)
}
