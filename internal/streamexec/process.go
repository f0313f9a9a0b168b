package streamexec

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/outlog"
)

// process is a corral.Process.
type process struct {
	x  *Processes
	id string

	ready    chan struct{} // closed when it is known whether it was started
	startErr error

	// Set before ready is closed. If the process was found in the records, stream, in
	// and out are nil.
	rec    record // without Exit
	log    *outlog.Log
	tty    bool
	stream Stream
	in     *input
	out    *output

	done chan struct{} // closed when these are set:
	exit corral.Exit
	err  error // why it is unknown how it ended

	removed atomic.Bool
}

// Info implements corral.Process.
func (p *process) Info() corral.Info {
	info := p.rec.Info
	info.Warnings = append([]string(nil), info.Warnings...)
	info.Digest = p.rec.Digest
	return info
}

// Log implements corral.Process.
func (p *process) Log() corral.Log { return p.log }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait implements corral.Process.
func (p *process) Wait(ctx context.Context) (corral.Exit, error) {
	if p.running() {
		select {
		case <-p.done:
		case <-ctx.Done():
			return corral.Exit{}, ctx.Err()
		}
	}
	return p.exit, p.err
}

// ended returns the error of a call on a process that has ended, or cannot be reached
// any more.
func (p *process) ended() error {
	if p.err != nil {
		return p.err
	}
	return corral.Errorf(corral.ErrEnded, "", "process %s has ended", p.id)
}

// Write implements corral.Process.
func (p *process) Write(ctx context.Context, b []byte) (int, error) {
	if !p.running() {
		return 0, p.ended()
	}
	n, err := p.in.write(ctx, b)
	if err != nil && !p.running() {
		err = p.ended()
	}
	return n, err
}

// CloseStdin implements corral.Process.
func (p *process) CloseStdin(ctx context.Context) error {
	if !p.running() {
		return p.err
	}
	err := p.in.close(ctx)
	if errors.Is(err, corral.ErrEnded) {
		return nil
	}
	return err
}

// Signal implements corral.Process.
func (p *process) Signal(ctx context.Context, s corral.Signal) error {
	if !s.Valid() {
		return corral.Errorf(corral.ErrInvalid, "signals are numbered 1 to 64", "no signal has the number %d", int(s))
	}
	if p.removed.Load() { // the ID may belong to another process by now
		return p.ended()
	}
	running, held := p.running(), p.out != nil && p.out.outlived()
	err := p.x.opts.Signal(ctx, p.Info(), s, running, held)
	if errors.Is(err, corral.ErrEnded) && !running {
		return p.ended()
	}
	return err
}

// Resize implements corral.Process.
func (p *process) Resize(ctx context.Context, s corral.Size) error {
	switch {
	case s.Rows == 0 || s.Cols == 0:
		return corral.Errorf(corral.ErrInvalid, "a terminal has at least one row and one column", "cannot resize to %d rows and %d columns", s.Rows, s.Cols)
	case !p.running():
		return p.ended()
	case !p.tty:
		return corral.Errorf(errors.ErrUnsupported, "start the command with a terminal", "cannot resize the terminal of %s: it has none", p.id)
	}
	err := p.stream.Resize(ctx, s)
	if err != nil && !p.running() {
		err = p.ended()
	}
	return err
}

// Remove implements corral.Process.
func (p *process) Remove(context.Context) error {
	if p.running() {
		return corral.Errorf(corral.ErrRunning, "wait for it", "process %s is running", p.id)
	}
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	if p.x.closed {
		return p.x.errClosed()
	}
	if q := p.x.procs[p.id]; q != nil && q != p {
		p.removed.Store(true)
		return nil // removed before: the ID belongs to another process by now
	}
	rec, err := p.x.records.find(p.id)
	if err != nil {
		return err
	}
	if rec != nil && !rec.Info.StartedAt.Equal(p.rec.Info.StartedAt) {
		p.removed.Store(true)
		return nil
	}
	delete(p.x.procs, p.id)
	if err := p.x.records.remove(p.id); err != nil {
		return err
	}
	p.removed.Store(true)
	return nil
}

// lost returns the error of a process with an unknown end.
func (p *process) lost(why string) error {
	return corral.Errorf(corral.ErrLost, "see its log for what it did; starting it again may do it twice", "it is not known how process %s ended: %s", p.id, why)
}
