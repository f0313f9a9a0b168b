package session

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
)

// Info says what was started, where and when.
func (s *Session) Info() corral.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info != nil {
		return *s.info
	}
	return corral.Info{ID: s.id, StartedAt: s.start.At}
}

// Log is the output. It is readable while the session is kept.
func (s *Session) Log() corral.Log { return sessionLog{s} }

// sessionLog asks the executor for the process at each read.
type sessionLog struct{ s *Session }

func (l sessionLog) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	p, err := l.s.process(ctx)
	if err != nil {
		return corral.Chunk{}, err
	}
	return p.Log().Read(ctx, off, buf)
}

func (l sessionLog) Stat(ctx context.Context) (corral.LogStat, error) {
	p, err := l.s.process(ctx)
	if err != nil {
		return corral.LogStat{}, err
	}
	return p.Log().Stat(ctx)
}

func (s *Session) logStat(ctx context.Context) (corral.LogStat, error) {
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	if p == nil {
		return corral.LogStat{}, corral.ErrUnavailable
	}
	return p.Log().Stat(ctx)
}

// Write sends p to standard input, or types it on the terminal.
func (s *Session) Write(ctx context.Context, p []byte) (int, error) {
	proc, err := s.acting(ctx)
	if err != nil {
		return 0, err
	}
	n, err := proc.Write(ctx, p)
	if n > 0 {
		s.noteInput()
	}
	return n, err
}

// CloseStdin ends standard input.
func (s *Session) CloseStdin(ctx context.Context) error {
	return s.with(ctx, func(p corral.Process) error { return p.CloseStdin(ctx) })
}

// Signal sends a signal to the whole tree.
func (s *Session) Signal(ctx context.Context, sig corral.Signal) error {
	return s.with(ctx, func(p corral.Process) error { return p.Signal(ctx, sig) })
}

// Resize sets the size of the terminal.
func (s *Session) Resize(ctx context.Context, size corral.Size) error {
	return s.with(ctx, func(p corral.Process) error { return p.Resize(ctx, size) })
}

func (s *Session) with(ctx context.Context, do func(corral.Process) error) error {
	p, err := s.acting(ctx)
	if err != nil {
		return err
	}
	return do(p)
}

// acting returns the executor's process, for a call that may act on it.
func (s *Session) acting(ctx context.Context) (corral.Process, error) {
	p, err := s.process(ctx)
	if err != nil {
		return nil, err
	}
	return p, mayAct(ctx, p.Info().Host)
}

// Wait waits for the end. An end that a Wait sees is no event.
func (s *Session) Wait(ctx context.Context) (corral.Exit, error) {
	over := s.expectEnd()
	select {
	case <-s.done:
		over(false)
		return s.exit()
	case <-ctx.Done():
		over(true)
		return corral.Exit{}, context.Cause(ctx)
	case <-s.m.life.Done():
		over(true)
		return corral.Exit{}, errClosed
	}
}

// Watch waits for the end without counting as a waiter: the end still becomes an event.
// It is for people who look on.
func (s *Session) Watch(ctx context.Context) error { return s.awaitEnd(ctx) }

// Ended returns when the session ended; ok is false if it runs.
func (s *Session) Ended() (at time.Time, ok bool) {
	if !s.hasEnded() {
		return time.Time{}, false
	}
	return s.end.At, true
}

// exit returns the Exit of a session that has ended.
func (s *Session) exit() (corral.Exit, error) {
	switch e := s.end; {
	case e.Exit != nil:
		return *e.Exit, nil
	case e.Reason == ReasonNotStarted:
		return corral.Exit{}, corral.Errorf(corral.ErrNotFound, "it is safe to begin it again", "session %s never began: %s", s.id, e.Detail)
	default:
		return corral.Exit{}, corral.Errorf(corral.ErrLost, "", "it is not known how session %s ended: %s", s.id, e.Detail)
	}
}

// Remove forgets an ended session, with its output. ErrRunning if it runs.
func (s *Session) Remove(ctx context.Context) error {
	if err := s.attached(ctx); err != nil && !errors.Is(err, corral.ErrNotFound) {
		return err
	}
	if !s.hasEnded() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.gone {
			return nil
		}
		return corral.Errorf(corral.ErrRunning, "kill it first", "session %s is running", s.id)
	}
	return s.forget(ctx)
}

// Clear is Remove, under the process tool's name for it.
func (s *Session) Clear(ctx context.Context) error { return s.Remove(ctx) }

// Discard kills the session if it runs, and forgets it.
func (s *Session) Discard(ctx context.Context) error {
	if !s.hasEnded() {
		if _, err := s.Kill(ctx); err != nil && !errors.Is(err, corral.ErrEnded) {
			return err
		}
	}
	return s.Remove(ctx)
}

// forget removes the session from the table first, and then its process: a session
// without a process would look as if it had never begun. If the process stays, the next
// life of the program removes it (see findAgain).
func (s *Session) forget(ctx context.Context) error {
	s.mu.Lock()
	p, gone, end := s.proc, s.gone, s.end
	s.gone = true
	s.mu.Unlock()
	if gone {
		return nil
	}
	if err := s.m.drop(s, reasonRemoved); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gone = false
		return err
	}
	if err := s.removeProcess(ctx, p, end); err != nil {
		return err
	}
	s.m.mu.Lock()
	delete(s.m.leaving, s.id)
	s.m.mu.Unlock()
	return nil
}

func (s *Session) removeProcess(ctx context.Context, p corral.Process, end *ended) error {
	if p == nil && end != nil && end.Reason == ReasonNotStarted {
		return nil
	}
	if p == nil {
		var err error
		if p, err = s.attach(ctx); errors.Is(err, corral.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := p.Remove(ctx); err != nil && !errors.Is(err, corral.ErrRunning) {
		return err
	}
	return nil
}
