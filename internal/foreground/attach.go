package foreground

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/session"
)

// AttachOptions configure Attach.
type AttachOptions struct {
	Streams
	Keys  *Keys // keys that detach
	Stdin bool  // pass standard input on
	Raw   bool  // do not filter the output

	Tell  func(line string)        // reports on the program itself, apart from the output
	Words func(text string) string // converts a warning for people
}

// errDetached ends an attachment and nothing else.
var errDetached = errors.New("detached")

// Attach shows a session, from an offset of its log on, until it ends, and passes typed
// input on. It returns how the session ended; nil if the user detached.
func Attach(ctx context.Context, p *client.Process, st session.Status, from int64, o AttachOptions) (*session.Status, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &attachment{
		AttachOptions: o, process: p, status: st, next: from,
		view: View{Streams: o.Streams, Raw: o.Raw, screen: st.TTY, answers: st.TTY && o.Stdin && terminal.Is(o.In)},
		keys: detacher{sequence: o.Keys.sequence}, detach: func() { cancel(errDetached) },
	}
	err := t.findScreen(ctx, p.Log())
	if err != nil {
		return nil, err
	}
	if t.term, err = p.Attach(ctx, t.next); err != nil {
		return nil, err
	}
	defer t.term.Close()
	end, err := t.run(ctx)
	if errors.Is(context.Cause(ctx), errDetached) {
		line := "detached from " + st.ID + ", which goes on"
		if terminal.Is(o.In) { // the cursor is at an unknown place
			line = "\r\n" + line
		}
		o.Tell(line)
		return nil, nil
	}
	return end, err
}

// An attachment connects this terminal to a session.
type attachment struct {
	AttachOptions
	tty     tty
	process *client.Process
	term    *client.Terminal
	status  session.Status
	next    int64 // offset in the log
	keys    detacher
	detach  func()
	view    View

	screen *terminal.Screen // nil: no terminal shows the session's terminal
	redraw bool             // the program has to redraw its screen
	past   terminal.Past
	now    int64 // output before this offset was answered when it was new
}

func (t *attachment) run(ctx context.Context) (*session.Status, error) {
	input := t.Stdin && t.status.Stdin && !t.status.Ended()
	if file, ok := terminal.Shows(t.Out); t.status.TTY && ok {
		t.tty.file = file
	}
	if t.status.TTY && terminal.Is(t.In) {
		t.tty.file = t.In
	}
	defer onSignals(t.resize, func(corral.Signal) { t.detach() })()
	t.greet(input)
	if t.status.TTY && input && terminal.Is(t.In) {
		t.tty.makeRaw(t.Streams)
		defer t.tty.restore()
	} else {
		t.keys.sequence = nil // a user who types whole lines cannot type them
	}
	defer t.leave()
	if err := t.enter(); err != nil {
		return nil, err
	}
	t.draw(ctx)
	if input {
		// It ends with this process if no more input comes.
		if terminal.Is(t.In) {
			go t.pass(ctx, t.In)
		} else {
			go t.feed(ctx, t.In)
		}
	}
	for {
		m, err := t.term.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case m.Exit != nil:
			return m.Exit, nil
		case m.Err != nil:
			if !errors.Is(m.Err, corral.ErrEnded) {
				t.warn(m.Err.Error() + ".")
			}
			continue
		}
		if err := t.show(m.Chunk); err != nil {
			return nil, err
		}
		t.next = m.Chunk.Next()
	}
}

// greet says how to detach.
func (t *attachment) greet(input bool) {
	how := "Ctrl-C detaches"
	switch {
	case t.status.Ended():
		return
	case input && t.status.TTY && terminal.Is(t.In):
		how = t.Keys.text + " detaches"
		if t.Keys.text == noKeys {
			how = "no keys detach"
		}
	}
	t.Tell("attached to " + t.status.ID + "; " + how)
}

// warn writes a warning to a terminal that may be raw.
func (t *attachment) warn(text string) {
	text = "warning: " + t.Words(text)
	if t.tty.raw != nil {
		text += "\r"
	}
	t.Tell(text)
}

// resize tells the session the size of our terminal.
func (t *attachment) resize(ctx context.Context) { t.resizeTo(ctx, func(*corral.Size) {}) }

// resizeTo does that with a changed size.
func (t *attachment) resizeTo(ctx context.Context, change func(*corral.Size)) {
	if t.status.Ended() {
		return
	}
	t.tty.sendSize(ctx, func(ctx context.Context, size corral.Size) error {
		change(&size)
		return t.term.Resize(ctx, size)
	})
}

// feed passes a pipe or a file to the session. If not all of it arrives, that is an
// error.
func (t *attachment) feed(ctx context.Context, in io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, werr := t.process.Write(ctx, buf[:n]); werr != nil {
				if ctx.Err() == nil && !errors.Is(werr, corral.ErrEnded) {
					t.warn("Standard input is not passed on any more: " + werr.Error() + ".")
				}
				return
			}
		}
		if err != nil {
			if !t.status.TTY { // a terminal's input has no end of its own
				_ = t.process.CloseStdin(ctx) // it may have ended
			}
			return
		}
	}
}

// pass passes typed input to the session.
func (t *attachment) pass(ctx context.Context, in io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		out, detach := t.keys.pass(buf[:n])
		t.write(ctx, out)
		switch {
		case detach:
			t.detach()
			return
		case ctx.Err() != nil:
			return
		case err != nil:
			if !t.status.TTY { // a terminal's input has no end of its own
				t.again(ctx, t.term.CloseStdin)
			}
			return
		}
	}
}

func (t *attachment) write(ctx context.Context, data []byte) {
	if len(data) > 0 {
		t.again(ctx, func(ctx context.Context) error { return t.term.Write(ctx, data) })
	}
}

// RetryPause is the pause between attempts to reach a gateway.
const RetryPause = 50 * time.Millisecond

// again repeats send until the session is connected. If the data may have been sent, it
// is not sent twice.
func (t *attachment) again(ctx context.Context, send func(context.Context) error) {
	for {
		err := send(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case !errors.Is(err, corral.ErrUnavailable):
			t.warn("What was typed may not have arrived: " + err.Error() + ".")
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(RetryPause):
		}
	}
}
