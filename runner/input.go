package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// feeder copies a reader to a process's standard input.
type feeder struct {
	tty bool // the input is a terminal's

	mu      sync.Mutex
	over    bool // no Read may begin
	reading bool // a Read is under way, and cannot be ended

	done chan struct{}
}

// feed begins to copy src to p. It passes a failure that leaves the input incomplete to
// fail: a command must not take half an input for the whole.
func feed(ctx context.Context, p corral.Process, tty bool, src io.Reader, fail func(error)) *feeder {
	f := &feeder{tty: tty, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		if err := f.copy(ctx, p, src); err != nil && ctx.Err() == nil {
			fail(err)
		}
	}()
	return f
}

func (f *feeder) copy(ctx context.Context, p corral.Process, src io.Reader) error {
	var buf []byte
	if src != nil {
		buf = make([]byte, 32<<10)
	}
	for src != nil {
		n, over, rerr := f.read(src, buf)
		if over {
			return nil
		}
		if n > 0 {
			if _, err := p.Write(ctx, buf[:n]); closedInput(err) {
				return nil // as with a closed pipe: the command does not want the rest
			} else if err != nil {
				return fmt.Errorf("cannot pass standard input to the command: %w", err)
			}
		}
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return fmt.Errorf("cannot read standard input: %w", rerr)
		}
	}
	if err := p.CloseStdin(ctx); err != nil && !closedInput(err) {
		return fmt.Errorf("cannot close the command's standard input: %w", err)
	}
	if f.tty {
		endAgain(ctx, p)
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

func (f *feeder) read(src io.Reader, buf []byte) (n int, over bool, err error) {
	if !f.setReading(true) {
		return 0, true, nil
	}
	n, err = src.Read(buf)
	return n, !f.setReading(false), err
}

// setReading records whether a Read is under way, and reports whether the feeder may go
// on.
func (f *feeder) setReading(reading bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading = reading && !f.over
	return !f.over
}

// end waits for the feeder, unless it is in a Read, which may never return. The context
// of feed must have ended.
func (f *feeder) end() {
	f.mu.Lock()
	f.over = true
	reading := f.reading
	f.mu.Unlock()
	if !reading {
		<-f.done
	}
}
