package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/session"
)

const attachLong = `Attach to a session: its output as it comes, from some lines before the end on,
and what is typed goes to it. It lasts until the session ends, also across
restarts of the gateway; the exit code is then the command's.

On a terminal keys are passed on as they are typed, and the size follows. A
program that draws a full screen draws it anew; afterwards this terminal is as it
was before.
Of its output nothing reaches beyond the screen, such as the clipboard or the
title; --raw passes on all.
The keys ctrl-p ctrl-q (--detach-keys) detach: the session goes on. From a session
without a terminal, Ctrl-C detaches and Ctrl-D ends its input.`

// attachFlags are those of one call.
type attachFlags struct {
	agent  string
	keys   detachKeys
	stdin  bool
	raw    bool
	window window
}

func (a *app) attachCommand() *cobra.Command {
	o := &attachFlags{}
	must(o.keys.Set(defaultDetachKeys))
	cmd := &cobra.Command{
		Use: "attach [flags] ID", Short: "Attach this terminal to a session",
		Long: attachLong,
		Example: `  corral attach server
  corral attach --detach-keys ctrl-a,d repl`,
		Args: oneSession, ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.attach(cmd.Context(), o, args[0])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&o.keys, "detach-keys", "`KEYS`: what is typed to detach, with commas between, or none")
	fromEnvironment(f, "detach-keys")
	must(cmd.RegisterFlagCompletionFunc("detach-keys", cobra.NoFileCompletions))
	f.BoolVarP(&o.stdin, "stdin", "i", true, "pass on standard input; =false: only watch")
	f.BoolVar(&o.raw, "raw", false, rawUsage)
	o.window.addFlags(cmd, 10)
	a.addAgentFlag(cmd, &o.agent)
	return cmd
}

// errDetached ends an attachment and nothing else.
var errDetached = errors.New("detached")

func (a *app) attach(ctx context.Context, o *attachFlags, id string) error {
	c, err := a.connect(o.agent)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := find(ctx, c, id)
	if err != nil {
		return err
	}
	st, err := p.Status(ctx)
	if err != nil {
		return err
	}
	off, err := o.window.begin(ctx, p.Log())
	if err != nil {
		return err
	}
	t := &attachment{
		front: foreground{app: a, process: p, cancel: cancel}, process: p, status: st, next: off,
		view: shown{app: a, raw: o.raw, screen: st.TTY, answers: st.TTY && o.stdin && isTerminal(a.stdin)},
		keys: detacher{sequence: o.keys.sequence}, detach: func() { cancel(errDetached) },
	}
	if err := t.findScreen(ctx, p.Log()); err != nil {
		return err
	}
	if t.term, err = p.Attach(ctx, t.next); err != nil {
		return err
	}
	defer t.term.Close()
	err = t.run(ctx, o)
	if errors.Is(context.Cause(ctx), errDetached) {
		line := "detached from " + st.ID + ", which goes on"
		if isTerminal(a.stdin) { // the cursor is wherever the session left it
			line = "\r\n" + line
		}
		a.tell(line)
		return nil
	}
	return interrupted(ctx, err)
}

// An attachment is this terminal at a session.
type attachment struct {
	front   foreground
	process *client.Process
	term    *client.Terminal
	status  session.Status
	next    int64 // offset in the log
	keys    detacher
	detach  func()
	view    shown

	screen *screenState // nil: no terminal shows the session's terminal
	redraw bool         // the program has to draw its screen anew
	past   pastOutput
	now    int64 // output before was answered when it was new
}

func (t *attachment) run(ctx context.Context, o *attachFlags) error {
	a := t.front.app
	input := o.stdin && t.status.Stdin && !t.status.Ended()
	if file, ok := a.stdout.(*os.File); t.status.TTY && ok && isTerminal(file) {
		t.front.terminal = file
	}
	if t.status.TTY && isTerminal(a.stdin) {
		t.front.terminal = a.stdin
	}
	stop := t.onSignals(ctx)
	defer stop()
	t.greet(o, input)
	if t.status.TTY && input && isTerminal(a.stdin) {
		t.front.makeRaw()
		defer t.front.restore()
	} else {
		t.keys.sequence = nil // whoever types by the line cannot type them
	}
	defer t.leave()
	if err := t.enter(); err != nil {
		return err
	}
	t.draw(ctx)
	if input {
		// It ends with this process if nothing is typed any more.
		if isTerminal(a.stdin) {
			go t.pass(ctx, a.stdin)
		} else {
			go t.feed(ctx, a.stdin)
		}
	}
	for {
		m, err := t.term.Next(ctx)
		switch {
		case err != nil:
			return err
		case m.Exit != nil:
			return sessionEnd(*m.Exit)
		case m.Err != nil:
			if !errors.Is(m.Err, corral.ErrEnded) {
				t.warn(m.Err.Error() + ".")
			}
			continue
		}
		if err := t.show(m.Chunk); err != nil {
			return err
		}
		t.next = m.Chunk.Next()
	}
}

// greet says how to get away again.
func (t *attachment) greet(o *attachFlags, input bool) {
	how := "Ctrl-C detaches"
	switch {
	case t.status.Ended():
		return
	case input && t.status.TTY && isTerminal(t.front.app.stdin):
		how = o.keys.text + " detaches"
		if o.keys.text == noDetachKeys {
			how = "no keys detach"
		}
	}
	t.front.app.tell("attached to " + t.status.ID + "; " + how)
}

// tell says something about what corral does, which is no output.
func (a *app) tell(text string) {
	if !a.quiet {
		_, _ = io.WriteString(a.stderr, text+"\n")
	}
}

// warn is a warning on a terminal that may be raw.
func (t *attachment) warn(text string) {
	text = "warning: " + inFlags(text)
	if t.front.raw != nil {
		text += "\r"
	}
	t.front.app.tell(text)
}

// onSignals follows the terminal's size, and detaches when this process is
// asked to end.
func (t *attachment) onSignals(ctx context.Context) (stop func()) {
	c := make(chan os.Signal, 16)
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	done := make(chan struct{})
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			select {
			case got := <-c:
				switch signalNumber(got) {
				case corral.SIGWINCH:
					t.resize(ctx)
				case corral.SIGPIPE:
				default:
					t.detach()
				}
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(c)
		close(done)
		owned.Wait()
	}
}

// resize tells the session the size of our terminal.
func (t *attachment) resize(ctx context.Context) { t.resizeTo(ctx, func(*corral.Size) {}) }

// resizeTo does so with a change. The gateway may be away, and a size that
// cannot be set is no reason to stop.
func (t *attachment) resizeTo(ctx context.Context, change func(*corral.Size)) {
	if t.front.terminal == nil || t.status.Ended() {
		return
	}
	if size := t.front.size(); *size != (corral.Size{}) {
		change(size)
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		_ = t.term.Resize(ctx, *size)
	}
}

// feed hands a pipe or a file to the session. Other than keys, of which a user
// sees what becomes of them, all of it has to arrive, or not be said to.
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

// pass hands what is typed to the session.
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

// retryPause is how often it is tried to send input while the gateway is away.
const retryPause = 50 * time.Millisecond

// again sends something as soon as there is somebody to send it to. When it may
// have been sent, it is not sent twice.
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
		case <-time.After(retryPause):
		}
	}
}
