package sandbox

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/outlog"
)

// execProcess is a corral.Process of an execDriver.
type execProcess struct {
	d  *execDriver
	id string

	ready    chan struct{} // closed when it is known whether it was started
	startErr error

	// Set before ready is closed. Of a process that was found in the
	// records, x, in and out are nil.
	rec       execRecord // without Exit
	log       *outlog.Log
	tty       bool
	container string // guarded by d.mu
	x         Exec
	in        *execInput
	out       *execOutput

	doomed atomic.Bool // its container is killed for the sake of another

	done chan struct{} // closed when these are set:
	exit corral.Exit
	err  error // why it is not known how it ended
}

// Info implements corral.Process.
func (p *execProcess) Info() corral.Info {
	info := p.rec.Info
	info.Warnings = append([]string(nil), info.Warnings...)
	return info
}

// Log implements corral.Process.
func (p *execProcess) Log() corral.Log { return p.log }

func (p *execProcess) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait implements corral.Process.
func (p *execProcess) Wait(ctx context.Context) (corral.Exit, error) {
	if p.running() {
		select {
		case <-p.done:
		case <-ctx.Done():
			return corral.Exit{}, ctx.Err()
		}
	}
	return p.exit, p.err
}

// ended is the answer to whoever wants something of a process that is over, or
// that nobody can reach any more.
func (p *execProcess) ended() error {
	if p.err != nil {
		return p.err
	}
	return corral.Errorf(corral.ErrEnded, "", "process %s has ended", p.id)
}

// Write implements corral.Process.
func (p *execProcess) Write(ctx context.Context, b []byte) (int, error) {
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
func (p *execProcess) CloseStdin(ctx context.Context) error {
	if !p.running() {
		return p.err
	}
	err := p.in.close(ctx)
	if errors.Is(err, corral.ErrEnded) {
		return nil
	}
	return err
}

// Signal implements corral.Process. The engine's exec API cannot do it. A
// process that has ended without a descendant holding its output has, as far as
// can be seen, left nothing to signal.
func (p *execProcess) Signal(_ context.Context, s corral.Signal) error {
	switch {
	case !s.Valid():
		return corral.Errorf(corral.ErrInvalid, "signals are numbered 1 to 64", "no signal has the number %d", int(s))
	case !p.running() && (p.out == nil || !p.out.outlived()):
		return p.ended()
	}
	return corral.Errorf(errors.ErrUnsupported, withoutWarden, "cannot send %v to %s: the engine's exec API sends no signals", s, p.id)
}

// Resize implements corral.Process.
func (p *execProcess) Resize(ctx context.Context, s corral.Size) error {
	switch {
	case s.Rows == 0 || s.Cols == 0:
		return corral.Errorf(corral.ErrInvalid, "a terminal has at least one row and one column", "cannot resize to %d rows and %d columns", s.Rows, s.Cols)
	case !p.running():
		return p.ended()
	case !p.tty:
		return corral.Errorf(errors.ErrUnsupported, "start the command with a terminal", "cannot resize the terminal of %s: it has none", p.id)
	}
	err := p.x.Resize(ctx, s.Rows, s.Cols)
	if err != nil && !p.running() {
		err = p.ended()
	}
	return err
}

// Remove implements corral.Process.
func (p *execProcess) Remove(context.Context) error {
	if p.running() {
		return corral.Errorf(corral.ErrRunning, "wait for it", "process %s is running", p.id)
	}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if p.d.closed {
		return errExecClosed
	}
	if q := p.d.procs[p.id]; q != nil && q != p {
		return nil // removed before: the ID is another's by now
	}
	rec, err := p.d.records.find(p.id)
	if err != nil {
		return err
	}
	if rec != nil && !rec.Info.StartedAt.Equal(p.rec.Info.StartedAt) {
		return nil
	}
	delete(p.d.procs, p.id)
	return p.d.records.remove(p.id)
}

// lost is the error of a process of which nobody can know how it ended.
func (p *execProcess) lost(why string) error {
	return corral.Errorf(corral.ErrLost, "see its log for what it did; starting it again may do it twice", "it is not known how process %s ended: %s", p.id, why)
}

// unseen is the error of a process whose end no life of this program saw.
func (p *execProcess) unseen() error {
	return corral.Errorf(corral.ErrLost, "see its log for what it did; starting it again may do it twice. To keep commands across restarts, "+withoutWarden,
		"it is not known how process %s ended: nobody saw it, and finding it again through the engine's exec API is an %w", p.id, errors.ErrUnsupported)
}
