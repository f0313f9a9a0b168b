package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// An event that is written while the table is written anew is in the new one, and its
// number is not used again.
func TestCompactWhileAnEventIsAdded(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Executor: func(context.Context, string) (corral.Executor, error) { return nil, corral.ErrUnavailable }}
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	rewritten := make(chan error, 1)
	err = m.events.add(Event{Type: EventDenied, Agent: DefaultAgent}, func(e *Event) error {
		err := m.journal.add(line{Op: opEvent, Event: e})
		go func() { rewritten <- m.journal.rewrite(m.snapshot) }()
		time.Sleep(100 * time.Millisecond) // it is written, and not shown so far
		return err
	})
	if err := errors.Join(err, <-rewritten, m.Close()); err != nil {
		t.Fatal(err)
	}
	if m, err = Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := m.events.all(); len(got) != 1 || m.LastEvent() != 1 {
		t.Errorf("the last event is %d: %+v", m.LastEvent(), got)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// An end that is to become an event becomes one in the next life, also if the table was
// written anew before that could be recorded.
func TestCompactWhileAnEventIsOwed(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("work", Options{Background: true, NotifyOnExit: true})
		over := s.expectEnd()
		time.Sleep(2 * time.Minute)
		r.status(s, Completed, "")
		r.m.journal.Fail(func(string) error { return errors.New("the disk is full") })
		over(true)
		r.m.journal.Fail(nil)
		r.ok(r.m.journal.rewrite(r.m.snapshot))
		r.reopen()
		r.events(1)
		r.reopen()
		r.events(1)
	})
}
