package streamexec

import (
	"context"
	"io"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
)

// input is a command's standard input. Accepted data waits in a small queue for one
// goroutine. So a Write can be cancelled while the other end reads nothing, with
// nothing half written.
type input struct {
	id   string
	x    writer
	open bool // the command was started with input
	tty  bool

	order turn.Lock // held by the current Write

	mu      sync.Mutex
	changed *sync.Cond
	queue   []byte
	shut    bool // CloseStdin was called
	deaf    bool // it is no longer read
}

// writer is the part of a Stream that takes input.
type writer interface {
	io.Writer
	CloseWrite() error
}

// InputQueue bounds the waiting input, in bytes.
const InputQueue = 64 << 10

const (
	inputChunk = 32 << 10
	// endOfFile is the character that a terminal turns into end-of-file.
	endOfFile = 0x04
)

func newInput(id string, x writer, cmd corral.Command) *input {
	in := &input{id: id, x: x, tty: cmd.TTY != nil, open: cmd.Stdin || cmd.TTY != nil, order: turn.New()}
	in.changed = sync.NewCond(&in.mu)
	return in
}

// run passes the queue on until stop. It half-closes the stream after the data that was
// written before close.
func (in *input) run() {
	for {
		chunk, more := in.next()
		if !more {
			return
		}
		var err error
		if chunk == nil {
			err = in.x.CloseWrite()
		} else {
			_, err = in.x.Write(chunk)
		}
		in.mu.Lock()
		in.queue = in.queue[len(chunk):]
		in.deaf = in.deaf || err != nil || chunk == nil
		in.changed.Broadcast()
		in.mu.Unlock()
	}
}

// next waits for a chunk of input; nil means the end of the input.
func (in *input) next() (chunk []byte, more bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) == 0 && !in.shut && !in.deaf {
		in.changed.Wait()
	}
	switch {
	case in.deaf:
		return nil, false
	case len(in.queue) == 0:
		return nil, true
	}
	return in.queue[:min(len(in.queue), inputChunk)], true
}

func (in *input) write(ctx context.Context, b []byte) (n int, err error) {
	if err := in.order.Take(ctx); err != nil {
		return 0, err
	}
	defer in.order.Release()
	stop := context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.changed.Broadcast()
	})
	defer stop()
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		for len(in.queue) >= InputQueue && !in.shut && !in.deaf && ctx.Err() == nil {
			in.changed.Wait()
		}
		switch {
		case !in.open, in.shut:
			return n, corral.Errorf(corral.ErrStdinClosed, "start the command with stdin to write to it", "the standard input of %s is closed", in.id)
		case in.deaf:
			return n, corral.Errorf(corral.ErrEnded, "", "nobody reads the standard input of %s any more", in.id)
		case ctx.Err() != nil:
			return n, ctx.Err()
		case n == len(b):
			return n, nil
		}
		part := b[n:min(len(b), n+InputQueue-len(in.queue))]
		in.queue = append(in.queue, part...)
		n += len(part)
		in.changed.Broadcast()
	}
}

func (in *input) close(ctx context.Context) error {
	if in.tty {
		_, err := in.write(ctx, []byte{endOfFile})
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.shut = in.shut || in.open
	in.changed.Broadcast()
	return nil
}

// stop makes run return as soon as its current Write returns.
func (in *input) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deaf = true
	in.changed.Broadcast()
}
