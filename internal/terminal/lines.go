package terminal

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Lines reads the lines that a user enters at the terminal of this program. It has a
// file of its own, so that it can be closed, and takes no input away from a command.
type Lines struct {
	close func()
	lines chan entered
	tty   *os.File
	asked atomic.Int64
}

// entered is a line, and the number of questions asked before it.
type entered struct {
	text  string
	asked int64
}

// lineBytes is more than a terminal accepts for a line.
const lineBytes = 8 << 10

// ErrClosed: the terminal was closed, so no user is there.
var ErrClosed = errors.New("the terminal was closed")

// OpenLines begins to read lines.
func OpenLines() (*Lines, error) {
	tty, err := os.Open(device)
	if err != nil {
		return nil, err
	}
	l := &Lines{lines: make(chan entered), tty: tty}
	stop := make(chan struct{})
	var owned sync.WaitGroup
	owned.Go(func() {
		defer close(l.lines)
		for line := make([]byte, lineBytes); ; {
			n, err := tty.Read(line) // a terminal gives one line at a time
			if n > 0 {
				select {
				case l.lines <- entered{string(line[:n]), l.asked.Load()}:
				case <-stop:
					return
				}
			}
			if n == 0 || err != nil {
				return
			}
		}
	})
	l.close = func() {
		close(stop)
		// If the terminal cannot be polled, the read ends with the program.
		if tty.SetReadDeadline(time.Now()) == nil {
			owned.Wait()
		}
		_ = tty.Close()
	}
	return l, nil
}

// Close stops reading. Call it once.
func (l *Lines) Close() { l.close() }

// Ask begins a question: earlier input, entered or not, does not answer it.
func (l *Lines) Ask() {
	l.asked.Add(1)
	forgetTyped(l.tty)
}

// Read returns the next line that was entered since Ask, without space around it.
func (l *Lines) Read(ctx context.Context) (string, error) {
	for {
		select {
		case line, ok := <-l.lines:
			if !ok {
				return "", ErrClosed
			}
			if line.asked == l.asked.Load() {
				return strings.TrimSpace(line.text), nil
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
