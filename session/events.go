package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/words"
)

// EventFinished is the type of an event about the end of a session.
const EventFinished = "exec.finished"

// An Event tells an agent what happened in the meantime.
type Event struct {
	Seq  int64     `json:"seq"` // from 1, in the order of events; never used twice
	Type string    `json:"type"`
	Time time.Time `json:"time"`

	Agent     string `json:"agent"`
	Key       string `json:"key,omitempty"` // the key that began it
	SessionID string `json:"sessionId"`
	Name      string `json:"name"`

	Approval string `json:"approvalId,omitempty"` // the approval that it needed

	Outcome // of the session

	Tail string `json:"tail,omitempty"` // the end of the output as one line, at most 180 characters
	Text string `json:"text"`           // the whole event, for a model
	// Wake asks the platform to wake the agent. A success without output does not.
	Wake bool `json:"wake"`
}

// Events is what Manager.Events returns.
type Events struct {
	Events []Event `json:"events"`
	Next   int64   `json:"next"` // pass it as after
	// Missed reports that events after the given one are no longer kept.
	Missed bool `json:"missed,omitempty"`
}

// keptEvents bounds the events that can be read later.
const keptEvents = 10_000

// eventLog holds the last events in memory. The journal has them on disk.
type eventLog struct {
	adding sync.Mutex // one event at a time gets a number, is written and shown

	mu      sync.Mutex
	last    int64   // number of the last event
	kept    []Event // in the order of their numbers
	more    chan struct{}
	maximum int
}

func newEventLog() *eventLog {
	return &eventLog{more: make(chan struct{}), maximum: keptEvents}
}

// add numbers e, writes it with write, and makes it readable.
func (l *eventLog) add(e Event, write func(*Event) error) error {
	l.adding.Lock()
	defer l.adding.Unlock()
	l.mu.Lock()
	e.Seq = l.last + 1
	l.mu.Unlock()
	if err := write(&e); err != nil {
		return err
	}
	l.show(e)
	return nil
}

// floor makes the next number greater than seq.
func (l *eventLog) floor(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last, seq)
}

// show makes an event readable, once: if the end of a journal line could not be
// written, the line is written again.
func (l *eventLog) show(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.kept); n > 0 && e.Seq <= l.kept[n-1].Seq {
		return
	}
	l.last = max(l.last, e.Seq)
	l.kept = append(l.kept, e)
	if len(l.kept) > l.maximum+l.maximum/10 {
		l.kept = slices.Clone(l.kept[len(l.kept)-l.maximum:])
	}
	close(l.more)
	l.more = make(chan struct{})
}

// has reports whether there is an event of that type for an approval.
func (l *eventLog) has(typ, approval string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.kept, func(e Event) bool { return e.Type == typ && e.Approval == approval })
}

// forgot returns the greatest number that is no longer kept. Every number has an event.
// mu is held.
func (l *eventLog) forgot() int64 {
	if len(l.kept) == 0 {
		return l.last
	}
	return l.kept[0].Seq - 1
}

// all returns the kept events, after one that is being written has been shown: a journal
// that is written anew has every event that the old one has.
func (l *eventLog) all() []Event {
	l.adding.Lock()
	defer l.adding.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// after returns the kept events with greater numbers, and a channel that is closed when
// there are more.
func (l *eventLog) after(agent string, seq int64) (Events, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case seq < 0:
		seq = l.last
	case seq > l.last: // of a table whose end is lost: the numbers that it had are given again
		return Events{Next: l.last, Missed: true}, l.more
	}
	got := Events{Next: max(seq, l.last), Missed: seq < l.forgot()}
	from, _ := slices.BinarySearchFunc(l.kept, seq+1, func(e Event, n int64) int { return cmp.Compare(e.Seq, n) })
	for _, e := range l.kept[from:] {
		if agent == "" || e.Agent == agent {
			got.Events = append(got.Events, e)
		}
	}
	return got, l.more
}

// Events returns the events of an agent ("": of all) with numbers greater than after,
// and blocks until there is one. A negative after means: only events from now on.
func (m *Manager) Events(ctx context.Context, agent string, after int64) (Events, error) {
	if after < 0 {
		after = m.LastEvent()
	}
	for {
		got, more := m.events.after(agent, after)
		if len(got.Events) > 0 || got.Missed {
			return got, nil
		}
		after = got.Next
		select {
		case <-more:
		case <-ctx.Done():
			return Events{Next: after}, context.Cause(ctx)
		case <-m.life.Done():
			return Events{Next: after}, errClosed
		}
	}
}

// LastEvent returns the number of the last event.
func (m *Manager) LastEvent() int64 {
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	return m.events.last
}

// event makes the event for the end of a session, without its number.
func (s *Session) event(e ended, tail string) Event {
	tail = oneLine(tail, 180)
	how, text := "completed", ""
	switch {
	case e.State == Unknown:
		how, text = "unknown", "it is not known how it ended"
	case e.Exit == nil:
		how, text = "failed", string(e.Reason)
	default:
		if e.State == Failed || !e.Exit.Success() {
			how = "failed"
		}
		text = strings.Replace(e.Exit.String(), "exit code", "code", 1)
	}
	wake := how != "completed" || tail != ""
	if s.start.Approval != "" && e.State != Unknown {
		how = "finished" // the word that approvers expect
	}
	text = fmt.Sprintf("Exec %s (%s, %s)", how, s.id, text)
	if tail != "" {
		text += " :: " + tail
	}
	return Event{
		Type: EventFinished, Time: e.At, Agent: s.start.Agent, Key: s.start.Key, SessionID: s.id, Name: s.name, Approval: s.start.Approval,
		Outcome: e.Outcome, Tail: tail, Text: text, Wake: wake,
	}
}

// oneLine returns the end of a text, at most n characters, with white space collapsed.
func oneLine(text string, n int) string {
	r := []rune(strings.Join(strings.Fields(words.StripANSI(text)), " "))
	if len(r) > n {
		r = append([]rune{'…'}, r[len(r)-n+1:]...)
	}
	return string(r)
}
