package session

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/leftover"
)

// Yield has the session in the foreground of this call until it ends, or for d (0: not
// at all; negative: without a limit), and then moves it to the background. If ctx ends
// before that, the whole tree is killed, and the error is the context's cause. A
// session that is in the background already stays there and is not killed.
func (s *Session) Yield(ctx context.Context, d time.Duration) (Status, error) {
	over := s.expectEnd()
	s.mu.Lock()
	s.foreground++
	s.mu.Unlock()

	var expired <-chan time.Time
	if d >= 0 {
		expired = time.After(d)
	}
	var err error
	select {
	case <-s.done:
	default:
		select {
		case <-s.done:
		case <-expired:
			err = s.toBackground()
		case <-s.m.draining:
			err = s.toBackground()
		case <-keyFrom(ctx).Ended:
			err = s.toBackground()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	s.mu.Lock()
	s.foreground--
	abandoned := ctx.Err() != nil && !s.background && s.end == nil && s.foreground == 0
	s.mu.Unlock()
	if abandoned {
		s.abandon(ctx)
	}
	st := s.Status(context.WithoutCancel(ctx))
	over(err != nil || !st.Ended())
	return st, err
}

// abandon kills a session whose caller is gone, and waits for its end.
func (s *Session) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace()+killLimit)
	defer cancel()
	killed, err := s.beginKill(ReasonCancelled)
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	if err != nil {
		return // it had ended before
	}
	select {
	case <-killed:
	case <-ctx.Done():
	}
}

// Background puts the session into the background.
func (s *Session) Background() error { return s.toBackground() }

// toBackground records that the session is in the background. It is there even if the
// record cannot be written: the next life puts every running session there.
func (s *Session) toBackground() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.background || s.end != nil || s.gone {
		return nil
	}
	s.background = true
	return s.m.journal.add(line{Op: opBackground, ID: s.id, Info: s.info})
}

// Keep keeps a session that ends in the foreground, until it is removed or the table is
// full.
func (s *Session) Keep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.start.Keep || s.background {
		return nil
	}
	if s.end != nil {
		if err := s.m.journal.add(line{Op: opEnd, ID: s.id, Info: s.info, End: s.end}); err != nil {
			return err
		}
	}
	s.start.Keep = true
	return nil
}

// killLimit bounds the wait of a call for a tree to end after SIGKILL.
const killLimit = 5 * time.Second

func (s *Session) grace() time.Duration {
	switch g := s.start.Grace; {
	case g == 0:
		return corral.DefaultGrace
	case g < 0:
		return 0
	default:
		return g
	}
}

// Kill ends the session: SIGTERM to the whole tree, and SIGKILL to what is left of it after
// the command's grace. It returns when all of it has ended. If ctx ends before, the kill goes on.
// ErrEnded: it had ended before.
func (s *Session) Kill(ctx context.Context) (Status, error) {
	err := s.attached(ctx)
	if err == nil {
		err = mayAct(ctx, s.Info().Host)
	}
	if err != nil {
		return Status{}, err
	}
	over := s.expectEnd()
	killed, err := s.beginKill(ReasonKilled)
	if err != nil {
		over(false)
		return s.Status(ctx), err
	}
	select {
	case <-s.done:
		select { // what the command left has as long
		case <-killed:
		case <-time.After(s.grace() + killLimit):
		case <-ctx.Done():
		}
	case <-killed:
		s.mu.Lock()
		err = s.killErr
		s.mu.Unlock()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	st := s.Status(context.WithoutCancel(ctx))
	over(err != nil || !st.Ended())
	return st, err
}

// beginKill starts a kill, unless one is under way. The channel is closed when all of the
// tree has ended, or the kill has been given up.
func (s *Session) beginKill(reason Reason) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		hint := ""
		if s.hasLeft() {
			hint = "a signal reaches what it left running: corral kill --signal KILL " + s.id
		}
		return nil, corral.Errorf(corral.ErrEnded, hint, "session %s has ended", s.id)
	}
	if s.killed != nil {
		return s.killed, nil
	}
	s.killing = cmp.Or(s.killing, reason)
	killed := make(chan struct{})
	if !s.m.spawn(func() { defer close(killed); s.kill() }) {
		return nil, errClosed
	}
	// A kill that cannot be recorded is not delayed. If the gateway dies now, only the
	// reason of the kill is lost.
	_ = s.m.journal.add(line{Op: opKill, ID: s.id, Reason: s.killing})
	s.killed = killed
	return killed, nil
}

// kill tries to kill the tree until it has ended or cannot be killed.
func (s *Session) kill() {
	err := s.tryKill()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return
	}
	s.killErr, s.killed = err, nil
	if errors.Is(err, errors.ErrUnsupported) {
		s.killing = "" // a later end is not caused by this kill
	}
}

func (s *Session) tryKill() error {
	p, err := s.process(s.m.life)
	if err != nil {
		return err
	}
	if grace := s.grace(); grace > 0 {
		begun := time.Now()
		if err := p.Signal(s.m.life, corral.SIGTERM); err != nil && !errors.Is(err, corral.ErrEnded) {
			return err
		}
		if s.endsWithin(grace) {
			return s.killRest(p, grace-time.Since(begun))
		}
	}
	for n := 0; ; n++ {
		err := p.Signal(s.m.life, corral.SIGKILL)
		if err != nil && !errors.Is(err, corral.ErrEnded) && !errors.Is(err, corral.ErrUnavailable) {
			return err
		}
		if s.endsWithin(killLimit) {
			return nil
		}
		if n == 2 {
			return corral.Errorf(corral.ErrUnavailable, "try again; a process in the kernel's hands (state D) cannot be killed before it leaves them",
				"session %s was sent SIGKILL and has not ended", s.id)
		}
	}
}

// killRest ends what the command left, which has ended within its grace.
func (s *Session) killRest(p corral.Process, grace time.Duration) error {
	if !s.hasLeft() {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.m.life, max(grace, 0)+killLimit)
	defer cancel()
	return leftover.End(ctx, p, grace)
}

// hasLeft reports whether the command of a session that has ended left processes then.
func (s *Session) hasLeft() bool { return s.end.Exit != nil && len(s.end.Exit.Orphans) > 0 }

// endsWithin reports whether the session ends within d.
func (s *Session) endsWithin(d time.Duration) bool {
	select {
	case <-s.done:
		return true
	case <-time.After(d):
	case <-s.m.life.Done():
	}
	return s.hasEnded()
}
