package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/sandbox/engine"
)

var (
	// errNoWarden: the container's init ended before it could be spoken to.
	errNoWarden = errors.New("no warden can run in this container")
	// errSilent: the container is there, and its warden cannot be spoken to.
	errSilent = errors.New("no connection")
)

// reachTimeout bounds how long a warden that was just started may take.
const reachTimeout = 15 * time.Second

// reach connects to the warden of a container that runs.
func (b *box) reach(ctx context.Context, c engine.Container) (wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	// A container whose init ends does not dial: look at it meanwhile.
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		b.watch(ctx, c, died)
	}()
	conn, err := b.dial(ctx, c)
	cause := context.Cause(ctx)
	died(nil)
	<-watched
	if err == nil {
		return conn, nil
	}
	if errors.Is(cause, errNoWarden) {
		return nil, b.notStarted(cause)
	}
	return nil, corral.Errorf(corral.ErrUnavailable, "remove the sandbox; the next command makes a new one", "the warden of the sandbox %s does not answer: %w", b.Sandbox, errors.Join(errSilent, err))
}

// notStarted is the error of a box whose init ended before it could be spoken to.
func (b *box) notStarted(err error) error {
	hint := "use an image for the engine's architecture with /bin/sh in it, or --driver exec"
	if b.Driver == DriverFDs && engine.IsGVisor(b.Runtime) {
		hint = openHint
	}
	return corral.Errorf(corral.ErrUnavailable, hint, "the sandbox %s does not start: %w", b.Sandbox, err)
}

func (b *box) dial(ctx context.Context, c engine.Container) (wire.Conn, error) {
	if b.Driver == DriverFDs {
		return b.acceptWarden(ctx, c)
	}
	stream, err := b.engine.Attach(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	return b.exclusive(ctx, stream)
}

// watch ends ctx with errNoWarden when the container ends.
func (b *box) watch(ctx context.Context, c engine.Container, died context.CancelCauseFunc) {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		now, err := b.engine.Inspect(ctx, c.ID)
		if err == nil && !now.Running {
			died(fmt.Errorf("%w: its init ended with code %d%s", errNoWarden, now.Exit, because(now)))
			return
		}
		if errors.Is(err, engine.ErrNoContainer) {
			died(fmt.Errorf("%w: it was removed", errNoWarden))
			return
		}
	}
}

// oomNews is how long an engine may take to say that a container ended for want of
// memory, once it has said that it ended: to Docker these are two events, in either
// order.
const oomNews = time.Second

// howEnded is what the engine says of how a container ended. One that was killed
// without a reason that is known is looked at again, for up to oomNews.
func (b *box) howEnded(ctx context.Context, c engine.Container) *engine.End {
	end := engine.EndOf(c)
	if l, err := loadLife(b.dir); err == nil && l.Ended != nil {
		return end // it is known already
	}
	for since := time.Now(); end.Code == engine.Killed && !end.OOM && time.Since(since) < oomNews; {
		select {
		case <-time.After(25 * time.Millisecond):
		case <-ctx.Done():
			return end
		}
		now, err := b.engine.Inspect(ctx, c.ID)
		if err != nil {
			return end
		}
		end = engine.EndOf(now)
	}
	return end
}

// gone is wardenexec.ErrGone, with why the container has ended if that is known.
func (b *box) gone(end *engine.End) error {
	if l, err := loadLife(b.dir); err == nil && l.Ended != nil { // what removed it noted why
		end = l.Ended
	}
	if how := end.How(); how != "" {
		return &wardenexec.Ended{How: how}
	}
	return wardenexec.ErrGone
}

func because(c engine.Container) string {
	switch {
	case engine.EndOf(c).OfMemory():
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
