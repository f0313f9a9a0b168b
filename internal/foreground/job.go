package foreground

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/terminal"
)

// Streams are the standard streams of this program.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
	Warn     func(text string) // a complete sentence
}

// A Job is a command that this call waits for. It gets the signals and the terminal's
// size.
type Job struct {
	Streams
	Cancel context.CancelCauseFunc // ends a start that is under way, or a run
	Keep   bool                    // do not forget the process after its end

	tty tty // for OpenTerminal and its result

	mu      sync.Mutex
	process corral.Process // nil until it has started
	signals int            // ending signals from the user so far
}

// CallLimit bounds calls on a process that the user cannot cancel.
const CallLimit = 5 * time.Second

// Start sets the process. From now on it gets the signals.
func (j *Job) Start(p corral.Process) {
	j.tty.makeRaw(j.Streams)
	j.mu.Lock()
	j.process = p
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), CallLimit)
	defer cancel()
	j.resize(ctx) // the size may have changed since the start
}

func (j *Job) current() corral.Process {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.process
}

// Remove forgets the process if it has ended: it is not needed any more.
func (j *Job) Remove() {
	p := j.current()
	if p == nil || j.Keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), CallLimit)
	defer cancel()
	if err := p.Remove(ctx); err != nil && !errors.Is(err, corral.ErrRunning) {
		j.Warn("The record of the command could not be removed: " + err.Error() + ".")
	}
}

// ForwardSignals passes this program's signals on until stop is called.
func (j *Job) ForwardSignals() (stop func()) { return onSignals(j.resize, j.end) }

// end passes on a signal that is meant to end the command. The second signal kills it,
// and the third cancels this program's own call.
func (j *Job) end(number corral.Signal) {
	j.mu.Lock()
	p := j.process
	j.signals++
	n := j.signals
	j.mu.Unlock()
	switch {
	case p == nil || n > 2:
		j.Cancel(Interruption{number})
		return
	case n == 2:
		number = corral.SIGKILL
	}
	ctx, cancel := context.WithTimeout(context.Background(), CallLimit)
	defer cancel()
	if err := p.Signal(ctx, number); err != nil && !errors.Is(err, corral.ErrEnded) {
		j.Cancel(Interruption{number}) // it tries to stop the command, and reports the result
	}
}

// OpenTerminal gives cmd a terminal of the size of ours. If the input comes from our
// terminal, it is made raw when the command has started. restore undoes that, and what
// is left of the output to Output. It may always be called.
func (j *Job) OpenTerminal(cmd *corral.Command) (restore func()) {
	cmd.TTY = &corral.Size{}
	for _, f := range []any{j.In, j.Out} {
		if file, ok := terminal.Shows(f); ok {
			j.tty.file = file
			cmd.TTY = j.tty.size()
			break
		}
	}
	return j.tty.restore
}

// Output returns what the output of a command on a terminal is written to. A command
// that is killed leaves our terminal as it used it, such as with the alternate screen.
// The first past bytes of the output were answered by a terminal when they were new.
func (j *Job) Output(past int64) io.Writer {
	if _, ok := terminal.Shows(j.Out); !ok {
		return j.Out
	}
	j.tty.shown = &terminal.Screen{}
	j.tty.out = j.Out
	return &shower{Writer: io.MultiWriter(j.Out, j.tty.shown), left: past}
}

// A shower leaves out the queries in old output: our terminal would answer them, and the
// answers would be typed.
type shower struct {
	io.Writer
	past terminal.Past
	left int64 // bytes of old output that are to come
}

func (s *shower) Write(p []byte) (int, error) {
	if s.left == 0 {
		return s.Writer.Write(p)
	}
	old := min(s.left, int64(len(p)))
	s.left -= old
	data := s.past.Show(p[:old])
	if s.left == 0 {
		data = append(append(data, s.past.Rest()...), p[old:]...)
	}
	if _, err := s.Writer.Write(data); err != nil {
		return 0, err
	}
	return len(p), nil
}

// HasTerminal reports whether OpenTerminal found ours.
func (j *Job) HasTerminal() bool { return j.tty.file != nil }

// resize passes the size of our terminal on.
func (j *Job) resize(ctx context.Context) {
	if p := j.current(); p != nil {
		j.tty.sendSize(ctx, p.Resize)
	}
}

// A tty is our terminal.
type tty struct {
	file *os.File // nil: there is none
	raw  *term.State

	out   io.Writer
	shown *terminal.Screen // follows the output to out; nil: nothing does
}

func (t *tty) makeRaw(s Streams) {
	if t.file == nil || t.file != s.In {
		return
	}
	raw, err := term.MakeRaw(int(t.file.Fd()))
	if err != nil {
		s.Warn("The terminal cannot be made raw, so keys go to the command by the line: " + err.Error() + ".")
		return
	}
	t.raw = raw
}

// restore undoes makeRaw, and what the output shown changed.
func (t *tty) restore() {
	if t.shown != nil && t.shown.Changed() {
		_, _ = io.WriteString(t.out, t.shown.Leave()) // the terminal may be gone
	}
	if t.raw != nil {
		// The terminal may be gone.
		_ = term.Restore(int(t.file.Fd()), t.raw)
	}
}

// size returns the size of our terminal; the zero size if it has none.
func (t *tty) size() *corral.Size {
	cols, rows, err := term.GetSize(int(t.file.Fd()))
	const limit = 1<<16 - 1
	if err != nil || cols <= 0 || rows <= 0 || cols > limit || rows > limit {
		return &corral.Size{}
	}
	return &corral.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

// sendSize calls resize with the size of our terminal until it has arrived, since the
// gateway or the node may be away for a time. It ignores other errors: a wrong size is no
// reason to stop.
func (t *tty) sendSize(ctx context.Context, resize func(context.Context, corral.Size) error) {
	for t.file != nil && ctx.Err() == nil {
		size := t.size() // it may have changed again
		if *size == (corral.Size{}) {
			return
		}
		call, cancel := context.WithTimeout(ctx, CallLimit)
		err := resize(call, *size)
		away := errors.Is(err, corral.ErrUnavailable) || call.Err() != nil
		cancel()
		if err == nil || !away {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(RetryPause):
		}
	}
}

// Telling is an Executor that reports each process that it started.
type Telling struct {
	corral.Executor
	Tell func(corral.Process)
	// Watch keeps the input of the process open, since a session that existed before
	// may need it.
	Watch bool
}

// A watched process keeps its input.
type watched struct{ corral.Process }

func (watched) CloseStdin(context.Context) error { return nil }

// Start implements corral.Executor.
func (s Telling) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := s.Executor.Start(ctx, cmd)
	if err == nil {
		s.Tell(p)
		if s.Watch {
			p = watched{p}
		}
	}
	return p, err
}
