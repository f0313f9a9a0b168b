package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/corral-exec/corral"
)

// A foreground is a command that this call waits for, with a user at the other end:
// signals go to it, and the terminal's size.
type foreground struct {
	app    *app
	cancel context.CancelCauseFunc // ends a start that is under way, or a run
	keep   bool                    // the process is not forgotten when it has ended

	// Only for openTerminal and what it returns.
	terminal *os.File
	raw      *term.State

	mu      sync.Mutex
	process corral.Process // nil until it has started
	signals int            // that the user sent to end it
}

// callLimit bounds calls on a process that nobody can cancel.
const callLimit = 5 * time.Second

// start is told of the process. From here on signals are the command's.
func (s *foreground) start(p corral.Process) {
	s.app.warnAll(p.Info())
	s.makeRaw()
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	s.resize() // it may have changed since the command was told
}

func (s *foreground) current() corral.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// remove forgets the process, if it has ended: nobody will ask for it again.
func (s *foreground) remove() {
	p := s.current()
	if p == nil || s.keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := p.Remove(ctx); err != nil && !errors.Is(err, corral.ErrRunning) {
		s.app.warn("The record of the command could not be removed: " + err.Error() + ".")
	}
}

// forwardSignals hands on what is sent to corral until stop is called.
func (s *foreground) forwardSignals() (stop func()) {
	// Buffered, because the runtime drops what nobody waits for.
	c := make(chan os.Signal, 16)
	for _, s := range forwarded {
		if !signal.Ignored(s) { // as nohup and background jobs of scripts have it
			signal.Notify(c, s)
		}
	}
	done := make(chan struct{})
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			select {
			case got := <-c:
				s.handle(got)
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

func (s *foreground) handle(got os.Signal) {
	switch number := signalNumber(got); number {
	case corral.SIGWINCH:
		s.resize()
	case corral.SIGPIPE: // the write that caused it fails, which is dealt with there
	default:
		s.end(number)
	}
}

// end hands on a signal that is meant to end the command. The second kills,
// and the third is for when not even that is possible.
func (s *foreground) end(number corral.Signal) {
	s.mu.Lock()
	p := s.process
	s.signals++
	n := s.signals
	s.mu.Unlock()
	switch {
	case p == nil || n > 2:
		s.cancel(interruption{number})
		return
	case n == 2:
		number = corral.SIGKILL
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := p.Signal(ctx, number); err != nil && !errors.Is(err, corral.ErrEnded) {
		s.cancel(interruption{number}) // which tries by itself, and says what comes of it
	}
}

// openTerminal gives cmd a terminal of the size of ours. Ours is made raw when
// the command has started, if it is where the input comes from; restore undoes
// that, and may be called in any case.
func (s *foreground) openTerminal(cmd *corral.Command) (restore func()) {
	cmd.TTY = &corral.Size{}
	for _, f := range []any{s.app.stdin, s.app.stdout} {
		if file, ok := f.(*os.File); ok && isTerminal(file) {
			s.terminal = file
			cmd.TTY = s.size()
			break
		}
	}
	return s.restore
}

// restore undoes makeRaw.
func (s *foreground) restore() {
	if s.raw != nil {
		// Nothing can be done for a terminal that is gone.
		_ = term.Restore(int(s.terminal.Fd()), s.raw)
	}
}

func (s *foreground) makeRaw() {
	if s.terminal == nil || s.terminal != s.app.stdin {
		return
	}
	raw, err := term.MakeRaw(int(s.terminal.Fd()))
	if err != nil {
		s.app.warn("The terminal cannot be made raw, so keys go to the command by the line: " + err.Error() + ".")
		return
	}
	s.raw = raw
}

// size is that of our terminal; the zero size if it has none.
func (s *foreground) size() *corral.Size {
	cols, rows, err := term.GetSize(int(s.terminal.Fd()))
	const limit = 1<<16 - 1
	if err != nil || cols <= 0 || rows <= 0 || cols > limit || rows > limit {
		return &corral.Size{}
	}
	return &corral.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

// resize follows our terminal. A size that cannot be set is no reason to stop.
func (s *foreground) resize() {
	p := s.current()
	if p == nil || s.terminal == nil {
		return
	}
	if size := s.size(); *size != (corral.Size{}) {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		_ = p.Resize(ctx, *size)
	}
}

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }
