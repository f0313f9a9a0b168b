package session

import (
	"context"
	"fmt"
	"time"
)

// The types of events other than EventFinished.
const (
	// EventRunning: a command that needed an approval has been running for
	// Options.RunningNotice. Once a session.
	EventRunning = "exec.running"
	// EventDenied: a command that was waiting for an approval will not run.
	EventDenied = "exec.denied"
)

// Announce makes an event that is not the end of a session. It sets the number and, if
// missing, the time. There is one event of each type for an approval: announcing it
// again does nothing.
func (m *Manager) Announce(e Event) error {
	m.announcing.Lock()
	defer m.announcing.Unlock()
	if e.Approval != "" && m.events.has(e.Type, e.Approval) {
		return nil
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	return m.events.add(e, func(ev *Event) error {
		return m.journal.add(line{Op: opEvent, Event: ev})
	})
}

// notice makes one event if the session still runs after Options.RunningNotice.
func (s *Session) notice() {
	s.mu.Lock()
	wait := time.Until(s.start.At.Add(s.start.Notice))
	wanted := s.start.Notice > 0 && !s.noticed
	s.mu.Unlock()
	if !wanted {
		return
	}
	select {
	case <-time.After(wait):
	case <-s.done:
		return
	case <-s.m.life.Done():
		return
	}
	ctx, cancel := context.WithTimeout(s.m.life, noticeTailLimit)
	defer cancel()
	tail, err := s.Tail(ctx, eventTail)
	if err != nil {
		tail = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil || s.gone {
		return
	}
	e := Event{
		Type: EventRunning, Time: time.Now().UTC(), Agent: s.start.Agent, Key: s.start.Key, SessionID: s.id, Name: s.name, Approval: s.start.Approval,
		Outcome: Outcome{State: Running}, Tail: oneLine(tail, 180), Text: fmt.Sprintf("Exec running (%s, >%s)", s.id, s.start.Notice),
	}
	if e.Tail != "" {
		e.Text += " :: " + e.Tail
	}
	if err := s.m.events.add(e, func(ev *Event) error {
		return s.m.journal.add(line{Op: opNotice, ID: s.id, Event: ev})
	}); err != nil {
		s.m.log.Warn("cannot record that a session is running", "session", s.id, "error", err)
		return
	}
	s.noticed = true
}

// noticeTailLimit bounds the wait of a notice for the output that it shows.
const noticeTailLimit = time.Second
