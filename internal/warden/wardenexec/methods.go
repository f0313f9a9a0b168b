package wardenexec

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// Info implements corral.Process.
func (p *process) Info() corral.Info {
	info := p.tag.Info.Info
	info.Warnings = append([]string(nil), info.Warnings...)
	info.Digest = p.tag.Digest
	return info
}

// Origin is for package origin.
func (p *process) Origin() *origin.Origin { return p.tag.Info.Origin }

// Log implements corral.Process.
func (p *process) Log() corral.Log { return p.log }

// Wait implements corral.Process.
func (p *process) Wait(ctx context.Context) (corral.Exit, error) {
	select {
	case <-p.done:
	default:
		select {
		case <-p.done:
		case <-ctx.Done():
			return corral.Exit{}, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit, p.err
}

// Write implements corral.Process.
func (p *process) Write(ctx context.Context, b []byte) (int, error) {
	c := p.carry()
	if c == nil || !p.running() {
		return 0, p.ended()
	}
	if err := p.wake(ctx); err != nil {
		return 0, err
	}
	n, err := c.write(ctx, b)
	if err != nil && !p.running() {
		err = p.ended()
	}
	return n, err
}

func (p *process) ended() error {
	return corral.Errorf(corral.ErrEnded, "", "process %s has ended", p.id)
}

// CloseStdin implements corral.Process.
func (p *process) CloseStdin(ctx context.Context) error {
	c := p.carry()
	if c == nil || !p.running() {
		return nil
	}
	if err := p.wake(ctx); err != nil {
		return err
	}
	return c.closeStdin(ctx)
}

// wake has the process hear what it is told next.
func (p *process) wake(ctx context.Context) error {
	if p.e.opts.Wake == nil {
		return nil
	}
	return p.e.opts.Wake(ctx)
}

// Signal implements corral.Process.
func (p *process) Signal(ctx context.Context, s corral.Signal) error {
	if !s.Valid() {
		return corral.Errorf(corral.ErrInvalid, "signals are numbered 1 to 64", "no signal has the number %d", int(s))
	}
	if p.isRemoved() { // the ID may be another's by now
		return p.ended()
	}
	// Also after its end: descendants may be left.
	err := p.call(ctx, &wire.Message{Type: wire.Signal, ID: p.id, Signal: uint64(s)})
	if errors.Is(err, corral.ErrNotFound) {
		return p.ended()
	}
	return err
}

func (p *process) isRemoved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.removed
}

// Resize implements corral.Process.
func (p *process) Resize(ctx context.Context, s corral.Size) error {
	if s.Rows == 0 || s.Cols == 0 {
		return corral.Errorf(corral.ErrInvalid, "a terminal has at least one row and one column", "cannot resize to %d rows and %d columns", s.Rows, s.Cols)
	}
	if p.running() {
		err := p.call(ctx, &wire.Message{Type: wire.Resize, ID: p.id, Rows: uint64(s.Rows), Cols: uint64(s.Cols)})
		if !errors.Is(err, corral.ErrNotFound) {
			return err
		}
	}
	return p.ended()
}

// call makes a request about this process.
func (p *process) call(ctx context.Context, m *wire.Message) error {
	if err := p.wake(ctx); err != nil {
		return err
	}
	waiting, done := p.e.unlessFrozen(ctx)
	defer done()
	c, err := p.e.connection(waiting, false)
	if err != nil {
		if errors.Is(err, ErrGone) {
			return p.ended()
		}
		return whyFrozen(waiting, err)
	}
	if _, err = c.call(waiting, m, nil); errors.Is(err, errSent) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = corral.Errorf(corral.ErrUnavailable, "", "%w", err)
	}
	return whyFrozen(waiting, err)
}

// Remove implements corral.Process.
func (p *process) Remove(ctx context.Context) error {
	if p.running() {
		return corral.Errorf(corral.ErrRunning, "wait for it, or kill it first", "process %s is running", p.id)
	}
	select {
	case <-p.recorded:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed {
		return nil
	}
	if errors.Is(p.err, errClosed) {
		return p.err
	}
	removeLog := p.log.Remove
	if pipes := p.pipesNamed.Load(); p.err != nil || pipes { // its log may be one that could not be opened
		removeLog = func() error { return removeFiles(p.e.records.root, p.id, pipes) }
	}
	if err := p.e.records.remove(p.id, removeLog); err != nil {
		return err
	}
	p.removed = true
	p.e.forget(p)
	if p.unnoted { // then the warden was not told yet
		p.e.acks.add(p.id, p.e.current)
	}
	return nil
}
