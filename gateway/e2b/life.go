package e2b

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
)

// Kill removes a sandbox, as its client can.
func (s *Server) Kill(ctx context.Context, id string) error { return s.destroy(ctx, id, always) }

// Pause freezes what runs in a sandbox; one that is paused stays so.
func (s *Server) Pause(ctx context.Context, id string) error {
	if err := s.freeze(ctx, id, false, always); !errors.Is(err, corral.ErrConflict) {
		return err
	}
	return nil
}

// Resume has what runs in a sandbox go on, as long as it could when it was made without a
// time-out.
func (s *Server) Resume(ctx context.Context, id string) error {
	_, err := s.thaw(ctx, id, time.Now().Add(defaultTime*time.Second).UTC(), "")
	return err
}

// A when says why something is not to be done to a sandbox as it is now.
type when func(Box) error

func always(Box) error { return nil }

// due is for what is done at the end of a sandbox's time: a client may have put it off
// meanwhile, or paused the sandbox.
func due(b Box) error {
	if b.Paused || time.Now().Before(b.End) {
		return errNotDue
	}
	return nil
}

var errNotDue = errors.New("its time is not over")

// destroy removes a sandbox with all that is kept of it. It is forgotten last, so that one
// that could not be removed is tried again, also in a later life.
func (s *Server) destroy(ctx context.Context, id string, now when) error {
	release, err := s.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	return s.dismantle(ctx, id, now)
}

// dismantle is destroy for who has the turn.
func (s *Server) dismantle(ctx context.Context, id string, now when) (err error) {
	b, ok := s.cfg.Store.Get(id)
	if !ok {
		return notFound(id)
	}
	if _, err := s.cfg.Store.change(id, func(b *Box) error { // from now on it is found by no caller
		if err := now(*b); err != nil {
			return err
		}
		b.Paused, b.Stopped, b.PauseAtEnd, b.End = false, false, false, b.Started
		return nil
	}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.again()
		}
	}()
	if err := s.cfg.Sandboxes.Remove(ctx, id); err != nil && !errors.Is(err, corral.ErrNotFound) {
		return err
	}
	s.procs.Delete(id)
	s.watchers.forget(id)
	s.samples.Delete(id)
	s.opened.Delete(id)
	if err := s.forgetSessions(ctx, b); err != nil {
		// Retention forgets them as well.
		s.log.Warn("commands of a sandbox of E2B's that was killed are kept for a while", "sandbox", id, "error", err)
	}
	if err := s.cfg.Sandboxes.Forget(id); err != nil {
		return err
	}
	_, err = s.cfg.Store.remove(id)
	return err
}

// endLimit is how long the end of a command may take that is known to have ended.
const endLimit = 10 * time.Second

// forgetSessions removes the sessions of a sandbox that is gone.
func (s *Server) forgetSessions(ctx context.Context, b Box) error {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	agent := s.cfg.Sessions.Agent(b.Agent)
	var errs []error
	for _, st := range agent.List(ctx) {
		if !strings.HasPrefix(st.ID, b.ID+".") {
			continue
		}
		found, err := agent.Session(st.ID)
		if err == nil {
			if err = found.Watch(ctx); err == nil {
				err = found.Remove(ctx)
			}
		}
		if err != nil && !errors.Is(err, corral.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// endsLate is how much later than a gateway would end it a sandbox ends by itself.
const endsLate = 2 * time.Second

// bound has a sandbox end by itself at its time, if no gateway runs then; or not, if it
// is paused then, or is to be.
func (s *Server) bound(ctx context.Context, b Box) {
	after := time.Duration(0)
	if !b.Paused && !b.PauseAtEnd {
		after = max(time.Until(b.End), 0) + endsLate
	}
	switch err := s.cfg.Sandboxes.EndAfter(ctx, b.Agent, b.ID, after); {
	case errors.Is(err, errors.ErrUnsupported):
		s.log.Debug("a sandbox of E2B's does not end by itself while no gateway runs", "sandbox", b.ID, "error", err)
	case err != nil && !errors.Is(err, corral.ErrNotFound):
		s.log.Warn("a sandbox of E2B's cannot be told when to end; a gateway has to run then", "sandbox", b.ID, "error", err)
	}
}

// keep has a change of a sandbox be on the disk. Meanwhile the sandbox is told when to end,
// and then is done what may be done by then: each takes some milliseconds.
func (s *Server) keep(ctx context.Context, b Box, then func() error) error {
	synced := make(chan error)
	go func() { synced <- s.cfg.Store.sync(b.ID) }()
	s.bound(ctx, b)
	err := then()
	return errors.Join(<-synced, err)
}

func nothing() error { return nil }

// freeze pauses a sandbox, without what is in memory if that is to stop. ErrConflict if it
// is paused already.
func (s *Server) freeze(ctx context.Context, id string, stop bool, now when) error {
	release, err := s.turns.Take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	// What is noted first is what is done again: a sandbox that is noted as paused is
	// frozen, or gets no call until it is resumed.
	b, err := s.cfg.Store.change(id, func(b *Box) error {
		if b.Paused {
			return corral.Errorf(corral.ErrConflict, "", "Sandbox %s is already paused", id)
		}
		if err := now(*b); err != nil {
			return err
		}
		b.Paused, b.Stopped = true, stop
		return nil
	})
	if err != nil {
		return err
	}
	frozen := false
	err = s.keep(ctx, b, func() error { // it is told first: else it would end as soon as it goes on
		if stop {
			defer s.procs.Delete(id)
			if b.Root {
				if err := s.saveRoot(ctx, b); err != nil {
					return err
				}
			}
			return s.cfg.Sandboxes.Stop(ctx, b.Agent, id)
		}
		err := s.cfg.Sandboxes.Pause(ctx, id)
		frozen = err == nil
		return err
	})
	if err == nil {
		return nil
	}
	if frozen { // and that could not be kept
		err = errors.Join(err, s.cfg.Sandboxes.Resume(ctx, id))
	}
	b, cerr := s.cfg.Store.change(id, func(b *Box) error { b.Paused, b.Stopped = false, false; return nil })
	defer s.again() // its deadline may have been passed over meanwhile
	return errors.Join(err, cerr, s.keep(ctx, b, nothing))
}

// thaw has a sandbox that is paused go on, until then; resumed is false if it was not. It is
// connected to by a key, or, if that is empty, by none.
func (s *Server) thaw(ctx context.Context, id string, end time.Time, key string) (resumed bool, err error) {
	release, err := s.turns.Take(ctx, id)
	if err != nil {
		return false, err
	}
	defer release()
	b, ok := s.cfg.Store.Get(id)
	if !ok {
		return false, notFound(id)
	}
	if !b.Paused {
		return false, nil
	}
	stopped := b.Stopped
	if !stopped {
		err := s.cfg.Sandboxes.Resume(ctx, id)
		if stopped = errors.Is(err, corral.ErrNotFound); err != nil && !stopped { // or the machine was restarted
			return false, err
		}
	}
	// Commands go to it only when it is not paused any more. Until it is as it was, it is
	// noted as stopped: after a crash it is paused again.
	b, err = s.cfg.Store.change(id, func(b *Box) error {
		b.Paused, b.Stopped, b.End, b.Key = false, stopped, end, cmp.Or(key, b.Key)
		return nil
	})
	if err == nil && stopped {
		if b, err = s.restart(s.within(ctx, b), b); err != nil {
			return false, err
		}
	}
	if err == nil {
		err = s.keep(ctx, b, nothing)
	}
	s.again()
	return true, err
}

// restart has a sandbox be as it was when it was paused without what was in memory. If that
// fails it is paused as before.
func (s *Server) restart(ctx context.Context, b Box) (Box, error) {
	err := s.cfg.Sandboxes.Warm(ctx, b.Agent)
	if err == nil && b.Root {
		err = s.restoreRoot(ctx, b)
	}
	if err == nil {
		err = s.launch(ctx, b)
	}
	if err == nil {
		if b, err = s.cfg.Store.change(b.ID, func(b *Box) error { b.Stopped = false; return nil }); err == nil {
			s.forgetRoot(b)
			return b, nil
		}
	}
	ctx, cancel := cleanly(ctx)
	defer cancel()
	s.procs.Delete(b.ID)
	if serr := s.cfg.Sandboxes.Stop(ctx, b.Agent, b.ID); serr != nil && !errors.Is(serr, corral.ErrNotFound) {
		err = errors.Join(err, serr)
	}
	b, cerr := s.cfg.Store.change(b.ID, func(b *Box) error { b.Paused = true; return nil })
	return b, errors.Join(err, cerr, s.keep(ctx, b, nothing))
}

// awake is a sandbox to which a call may go: one that runs, or that resumes for a call.
func (s *Server) awake(ctx context.Context, id string) (Box, error) {
	b, ok := s.cfg.Store.Get(id)
	switch {
	case !ok || s.over(b):
		return b, errGone(id)
	case !b.Paused:
		return b, nil
	case !b.ResumeOnCall:
		return b, errGone(id)
	}
	if _, err := s.thaw(ctx, id, time.Now().Add(defaultTime*time.Second).UTC(), ""); err != nil {
		return b, err
	}
	b, _ = s.cfg.Store.Get(id)
	return b, nil
}

// again has deadlines looked at.
func (s *Server) again() {
	turn.Offer(s.wake, struct{}{}) // they will be in any case
}

// retryLimit is how long after an attempt that failed a deadline is tried again.
const retryLimit = 10 * time.Second

// maxEnding is how many sandboxes are ended at a time: one that takes long delays no other.
const maxEnding = 16

// keepDeadlines ends sandboxes in time. Those whose time was over while no gateway ran are
// ended at once.
func (s *Server) keepDeadlines() {
	type try struct {
		id    string
		again time.Time // zero: it is ended
	}
	tried := make(chan try)
	ending, failed := map[string]bool{}, map[string]time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-s.wake:
		case <-timer.C:
		case t := <-tried:
			delete(ending, t.id)
			if delete(failed, t.id); !t.again.IsZero() {
				failed[t.id] = t.again
			}
		}
		next := time.Hour
		for _, b := range s.cfg.Store.List() {
			if b.Paused || ending[b.ID] || len(ending) == maxEnding {
				continue
			}
			if left := time.Until(later(b.End, failed[b.ID])); left > 0 {
				next = min(next, left)
				continue
			}
			ending[b.ID] = true
			s.owned.Go(func() {
				t := try{id: b.ID}
				if err := s.atEnd(b); err != nil && s.life.Err() == nil {
					s.log.Warn("a sandbox of E2B's could not be ended in time; trying again", "sandbox", b.ID, "error", err, "hint", corral.Hint(err))
					t.again = time.Now().Add(retryLimit)
				}
				select {
				case tried <- t:
				case <-s.life.Done():
				}
			})
		}
		maps.DeleteFunc(failed, func(id string, _ time.Time) bool { _, ok := s.cfg.Store.Get(id); return !ok })
		timer.Reset(next)
	}
}

// atEnd is what becomes of a sandbox whose time is over.
func (s *Server) atEnd(b Box) error {
	ctx, cancel := context.WithTimeout(s.life, callLimit)
	defer cancel()
	s.log.Info("the time of a sandbox of E2B's is over", "sandbox", b.ID, "agent", b.Agent, "pause", b.PauseAtEnd)
	var err error
	if b.PauseAtEnd {
		err = s.freeze(ctx, b.ID, b.StopAtEnd, due)
	} else {
		err = s.destroy(ctx, b.ID, due)
	}
	if errors.Is(err, errNotDue) || errors.Is(err, corral.ErrConflict) || errors.Is(err, corral.ErrNotFound) {
		return nil // put off, paused or removed by a client
	}
	return err
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	return noContent(w, nil)
}
