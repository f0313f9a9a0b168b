package foreground

import (
	"context"
	"io"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/terminal"
)

// findScreen finds the terminal state for the output to be shown. A program with a
// screen of its own redraws it, and its earlier output is not shown.
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

// enter prepares our terminal; leave restores it.
func (t *attachment) enter() error {
	if t.screen == nil {
		return nil
	}
	_, err := io.WriteString(t.Out, t.screen.Enter())
	return err
}

func (t *attachment) leave() {
	if t.screen != nil {
		// Errors do not matter: the terminal may be gone.
		_, _ = io.WriteString(t.Out, t.screen.Leave())
	}
}

// show shows output. In old output it leaves out queries that our terminal would
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

// redrawPause is the time for a program to notice a changed terminal size, before the
// right size is set. A program redraws its whole screen only when the size changes, and
// the size may be right already.
const redrawPause = 100 * time.Millisecond

// draw makes the program draw for the size of our terminal.
func (t *attachment) draw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	if t.redraw {
		t.resizeTo(ctx, func(s *corral.Size) { s.Rows = max(1, s.Rows-1) })
		select {
		case <-time.After(redrawPause):
		case <-ctx.Done():
		}
	}
	t.resize(ctx)
}
