package docker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// execution is a command that runs, or has run: a sandbox.Exec.
type execution struct {
	e         *Engine
	id        string // of the exec
	container string
	conn      types.HijackedResponse
	frames    *frames // nil with a terminal, whose output is bare

	once sync.Once
	eof  chan struct{} // closed when the output has ended
}

// Read implements sandbox.Exec. One goroutine may call it.
func (x *execution) Read(p []byte) (n, stream int, err error) {
	if x.frames != nil {
		n, stream, err = x.frames.Read(p)
	} else {
		n, err = x.conn.Reader.Read(p)
		stream = int(corral.Stdout)
	}
	if err != nil {
		x.once.Do(func() { close(x.eof) })
	}
	return n, stream, err
}

// Write implements sandbox.Exec. It blocks while the command does not read.
func (x *execution) Write(p []byte) (int, error) { return x.conn.Conn.Write(p) }

// CloseWrite implements sandbox.Exec.
func (x *execution) CloseWrite() error { return x.conn.CloseWrite() }

// Close implements sandbox.Exec: it lets go of the streams, even while they are used.
func (x *execution) Close() error { return x.conn.Conn.Close() }

// Resize implements sandbox.Exec.
func (x *execution) Resize(ctx context.Context, rows, cols uint16) error {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	err := x.e.c.ContainerExecResize(ctx, x.id, container.ResizeOptions{Height: uint(rows), Width: uint(cols)})
	if err != nil {
		return x.e.fail("resize a terminal", err)
	}
	return nil
}

const (
	// pollEvery is how often the engine is asked whether a command has ended
	// whose output goes on: a descendant may hold it.
	pollEvery = 100 * time.Millisecond
	// firstPoll is the pause before asking again once the output has ended.
	firstPoll = 5 * time.Millisecond
	// retryEvery is the pause after the engine did not answer.
	retryEvery = time.Second
	// settling is how long a container that was killed may seem to run on
	// after its commands have ended.
	settling = 200 * time.Millisecond
)

// Result implements sandbox.Exec. An engine that does not answer is asked
// again until ctx ends; one that has forgotten the command is corral.ErrLost.
func (x *execution) Result(ctx context.Context) (int, error) {
	eof, delay := x.eof, pollEvery
	for {
		now, err := x.inspect(ctx)
		pause := delay
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case errdefs.IsNotFound(err):
			return 0, corral.Errorf(corral.ErrLost, "", "the engine no longer knows the command: %w", err)
		case err != nil:
			pause = retryEvery
		case !now.Running:
			return now.ExitCode, x.orphaned(ctx, now.ExitCode)
		}
		select {
		case <-eof:
			eof, delay = nil, firstPoll
		case <-time.After(pause):
			delay = min(2*delay, pollEvery)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (x *execution) inspect(ctx context.Context) (container.ExecInspect, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	return x.e.c.ContainerExecInspect(ctx, x.id)
}

// killed is the exit code that the engine gives for SIGKILL.
const killed = 128 + int(corral.SIGKILL)

// orphaned is corral.ErrLost if the code may be that of the container's end,
// which kills whatever runs in it.
func (x *execution) orphaned(ctx context.Context, code int) error {
	if code != killed {
		return nil
	}
	for range 2 {
		c, err := x.e.Inspect(ctx, x.container)
		if errors.Is(err, engine.ErrNoContainer) || err == nil && !c.Running {
			return corral.Errorf(corral.ErrLost, "", "the container %s ended with the command in it", x.container)
		}
		select {
		case <-time.After(settling):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
