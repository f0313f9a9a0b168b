package fakeexec

import (
	"context"
	"io"

	"github.com/corral-exec/corral"
)

// An IO is what a Program has in its hands.
type IO struct {
	Context context.Context // ends with the process, such as by a signal
	Command corral.Command

	Stdin          io.Reader // io.EOF at its end, the Context's error when the process is killed
	Stdout, Stderr io.Writer // fail once the process has ended

	p *process
}

// Ignore makes the process survive signals; not SIGKILL.
func (o *IO) Ignore(signals ...corral.Signal) {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	o.p.ignored = append(o.p.ignored, signals...)
}

// Size is the size of the terminal now.
func (o *IO) Size() corral.Size {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	return o.p.size
}

// Print writes to both streams and exits.
func Print(stdout, stderr string, code int) Program {
	return func(o *IO) int {
		if _, err := io.WriteString(o.Stdout, stdout); err != nil {
			return 1
		}
		if _, err := io.WriteString(o.Stderr, stderr); err != nil {
			return 1
		}
		return code
	}
}

// Cat copies input to output.
func Cat(o *IO) int {
	if _, err := io.Copy(o.Stdout, o.Stdin); err != nil {
		return 1
	}
	return 0
}

// Sleep does nothing until it is killed.
func Sleep(o *IO) int {
	<-o.Context.Done()
	return 0
}

// Stubborn prints its text and sleeps, and nothing but SIGKILL wakes it.
func Stubborn(text string) Program {
	return func(o *IO) int {
		o.Ignore(corral.SIGTERM, corral.SIGINT, corral.SIGHUP)
		Print(text, "", 0)(o)
		return Sleep(o)
	}
}

type stdinReader struct {
	p    *process
	rest []byte
}

func (r *stdinReader) Read(buf []byte) (int, error) {
	if len(r.rest) == 0 {
		select {
		case r.rest = <-r.p.stdin:
		case <-r.p.stdinClosed:
			return 0, io.EOF
		case <-r.p.ctx.Done():
			return 0, r.p.ctx.Err()
		}
	}
	n := copy(buf, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

type streamWriter struct {
	p      *process
	stream corral.Stream
}

func (w streamWriter) Write(data []byte) (int, error) {
	if !w.p.log.append(w.stream, data) {
		return 0, context.Canceled
	}
	return len(data), nil
}
