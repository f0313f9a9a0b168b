package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/readahead"
)

// feeder copies a reader to a process's standard input.
type feeder struct {
	p   corral.Process
	tty bool              // the input is a terminal's
	src *readahead.Reader // nil: there is no input

	done chan struct{}
}

// feed begins to copy src to p. It passes a failure that leaves the input incomplete to
// fail: a command must not take half an input for the whole.
func feed(ctx context.Context, p corral.Process, tty bool, src io.Reader, fail func(error)) *feeder {
	f := &feeder{p: p, tty: tty, done: make(chan struct{})}
	if src != nil {
		f.src = readahead.New(src.Read)
	}
	go func() {
		defer close(f.done)
		if err := f.copy(ctx); err != nil && ctx.Err() == nil {
			fail(err)
		}
	}()
	return f
}

func (f *feeder) copy(ctx context.Context) error {
	if f.src != nil {
		defer f.src.Stop()
	}
	for f.src != nil {
		data, err := f.src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("cannot read standard input: %w", err)
		}
		if len(data) == 0 { // stopped
			return nil
		}
		if _, err := f.p.Write(ctx, data); closedInput(err) {
			return nil // as with a closed pipe: the command does not want the rest
		} else if err != nil {
			return fmt.Errorf("cannot pass standard input to the command: %w", err)
		}
	}
	if err := f.p.CloseStdin(ctx); err != nil && !closedInput(err) {
		return fmt.Errorf("cannot close the command's standard input: %w", err)
	}
	if f.tty {
		endAgain(ctx, f.p)
	}
	return nil
}

// Pauses between the ends of a terminal's input: each is twice as long as the one
// before, up to the last.
const (
	firstEndPause = 50 * time.Millisecond
	lastEndPause  = time.Second
	// killLine is Ctrl-U, which deletes a line. If a terminal has no line it does
	// nothing.
	killLine = 0x15
)

// endAgain ends the input of a terminal until the process has ended. The end is a
// character, and it ends one read of one program. If a line editor then takes over the
// terminal, the character is lost or becomes a part of the line. It ends the input only
// at the beginning of a line, so endAgain first deletes the rest of a line.
func endAgain(ctx context.Context, p corral.Process) {
	for pause := firstEndPause; ; pause = min(2*pause, lastEndPause) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		// All of the input and its end arrived before. Wait reports a lasting error,
		// and the next try handles a passing one.
		_, err := p.Write(ctx, []byte{killLine})
		if err == nil {
			err = p.CloseStdin(ctx)
		}
		if closedInput(err) {
			return
		}
	}
}

func closedInput(err error) bool {
	return errors.Is(err, corral.ErrStdinClosed) || errors.Is(err, corral.ErrEnded)
}

// end waits for the feeder, except for a read, which may never return. The context of
// feed must have ended.
func (f *feeder) end() {
	if f.src != nil && !f.src.Stop() {
		f.src.Wait()
	}
	<-f.done
}
