package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/wire"
)

// errNoWarden: the container's init ended before it could be spoken to.
var errNoWarden = errors.New("no warden can run in this container")

// connect is wardenexec.Options.Connect: to the warden of a container that
// runs, or with start of one that is made.
func (e *Executor) connect(ctx context.Context, start bool) (wire.Conn, error) {
	unlock, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := e.sweepOnce(ctx); err != nil {
		return nil, err
	}
	for _, driver := range e.drivers() {
		var c Container
		if c, err = e.ensure(ctx, driver, start); err != nil {
			if errors.Is(err, errDriver) {
				continue // it runs, and is spoken to in another way
			}
			return nil, err
		}
		var conn wire.Conn
		if conn, err = e.reach(ctx, driver, c); err == nil {
			e.mu.Lock()
			e.driver = driver
			e.mu.Unlock()
			return conn, nil
		}
		e.cfg.Log.Warn("cannot reach the warden", "driver", driver, "error", err)
		if !start || ctx.Err() != nil || e.cfg.Driver != DriverAuto {
			return nil, err
		}
		// A container is made for one driver.
		if rerr := e.cfg.Engine.Remove(ctx, c.ID); rerr != nil {
			return nil, errors.Join(err, rerr)
		}
	}
	return nil, err
}

// drivers are those to try, in this order.
func (e *Executor) drivers() []Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.driver != "" {
		return []Driver{e.driver}
	}
	if e.cfg.isolatedKernel() {
		return []Driver{DriverFrames}
	}
	return []Driver{DriverFDs, DriverFrames}
}

// reachTimeout bounds how long a warden that was just started may take.
const reachTimeout = 15 * time.Second

func (e *Executor) reach(ctx context.Context, driver Driver, c Container) (wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	// A container whose init ends does not dial: look at it meanwhile.
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		e.watch(ctx, c, died)
	}()
	conn, err := e.dial(ctx, driver, c)
	cause := context.Cause(ctx)
	died(nil)
	<-watched
	if err == nil {
		return conn, nil
	}
	if errors.Is(cause, errNoWarden) {
		return nil, corral.Errorf(corral.ErrUnavailable, "use an image for the engine's architecture with /bin/sh in it, or --driver exec", "the sandbox %s does not start: %w", e.cfg.Name, cause)
	}
	return nil, corral.Errorf(corral.ErrUnavailable, "remove the sandbox; the next command makes a new one", "the warden of the sandbox %s does not answer: %w", e.cfg.Name, err)
}

func (e *Executor) dial(ctx context.Context, driver Driver, c Container) (wire.Conn, error) {
	if driver == DriverFDs {
		return e.acceptWarden(ctx, c)
	}
	stream, err := e.cfg.Engine.Attach(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	return e.exclusive(ctx, stream)
}

// watch ends ctx with errNoWarden when the container ends.
func (e *Executor) watch(ctx context.Context, c Container, died context.CancelCauseFunc) {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		now, err := e.cfg.Engine.Inspect(ctx, c.ID)
		if err == nil && !now.Running {
			died(fmt.Errorf("%w: its init ended with code %d%s", errNoWarden, now.Exit, because(now)))
			return
		}
		if errors.Is(err, ErrNoContainer) {
			died(fmt.Errorf("%w: it was removed", errNoWarden))
			return
		}
	}
}

func because(c Container) string {
	switch {
	case c.OOM:
		return ", out of memory"
	case c.Error != "":
		return ": " + c.Error
	}
	return ""
}

// strictFrames makes a connection of an attached stream.
func strictFrames(stream io.ReadWriteCloser) wire.Conn {
	f := wire.NewFrames(stream, stream, stream)
	f.Strict = true
	return f
}
