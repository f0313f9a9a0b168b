package session

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

func replayed(lines ...line) *Manager {
	m := &Manager{events: newEventLog(), sessions: map[string]*Session{}, running: map[string]*atomic.Int64{}}
	for _, l := range lines {
		m.replay(l)
	}
	return m
}

// kept is what a session is after its journal was read.
type kept struct {
	Start                      begun
	Info                       *corral.Info
	Background, Noticed, Ended bool
	Killing                    Reason
	Polled                     int64
	Owed                       bool
	End                        *ended
}

func keptOf(s *Session) kept {
	return kept{s.start, s.info, s.background, s.noticed, s.hasEnded(), s.killing, s.polled, s.owed, s.end}
}

// What the journal says of a session is what the next one says, and each line
// says what it is there for.
func TestReplay(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	start := begun{Origin: origin.Origin{Agent: "main", Command: "sleep 1"}, At: at}
	keep := start
	keep.Keep = true
	info := &corral.Info{PID: 7}
	first := line{Op: opStart, ID: "a", Start: &start}
	end := ended{Outcome: Outcome{State: Completed}, At: at, Size: 3}
	for name, tt := range map[string]struct {
		lines []line
		want  kept
	}{
		"start":           {nil, kept{Start: start}},
		"begun":           {[]line{{Op: opBegun, Info: info}}, kept{Start: start, Info: info}},
		"background":      {[]line{{Op: opBackground}}, kept{Start: start, Background: true}},
		"background, pid": {[]line{{Op: opBackground, Info: info}}, kept{Start: start, Background: true, Info: info}},
		"both":            {[]line{{Op: opBegun, Info: info}, {Op: opBackground}}, kept{Start: start, Background: true, Info: info}},
		"kill":            {[]line{{Op: opKill, Reason: ReasonCancelled}}, kept{Start: start, Killing: ReasonCancelled}},
		"notice":          {[]line{{Op: opNotice}}, kept{Start: start, Noticed: true}},
		"polled":          {[]line{{Op: opPolled, Offset: 1}}, kept{Start: start, Polled: 1}},
		"end":             {[]line{{Op: opEnd, End: &end}}, kept{Start: keep, Ended: true, End: &end}},
		"owed":            {[]line{{Op: opEnd, End: &end, Owed: true}}, kept{Start: keep, Ended: true, Owed: true, End: &end}},
		"seen":            {[]line{{Op: opEnd, End: &end, Owed: true}, {Op: opSeen}}, kept{Start: keep, Ended: true, End: &end}},
		"end twice":       {[]line{{Op: opEnd, End: &end}, {Op: opEnd, End: &ended{}, Owed: true}}, kept{Start: keep, Ended: true, End: &end}},
		"end without end": {[]line{{Op: opEnd}}, kept{Start: start}},
	} {
		journal := []line{first}
		for _, l := range tt.lines {
			l.ID = "a"
			journal = append(journal, l)
		}
		m := replayed(journal...)
		if got, want := m.running[start.Agent].Load() == 1, !tt.want.Ended; got != want {
			t.Errorf("%s: counts as running: %v, want %v", name, got, want)
		}
		if d := cmp.Diff(tt.want, keptOf(m.sessions["a"])); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		again := replayed(m.snapshot()...)
		if d := cmp.Diff(tt.want, keptOf(again.sessions["a"])); d != "" {
			t.Errorf("%s, written anew (-want +got):\n%s", name, d)
		}
		// No line is written that says nothing.
		lines, w := 2, tt.want // the last event, and the start
		for _, said := range []bool{w.Info != nil, w.Background, w.Noticed, w.Killing != "", w.Polled > 0, w.Ended} {
			if said {
				lines++
			}
		}
		if got := len(m.snapshot()); got != lines {
			t.Errorf("%s: %d lines, want %d", name, got, lines)
		}
	}
}

// Lines of sessions that the table does not have name them, if they say that
// something was run.
func TestReplayOfTheUnknown(t *testing.T) {
	for op, want := range map[string]bool{
		opBegun: true, opBackground: true, opPolled: true, opKill: true, opNotice: true, opEnd: true,
		opSeen: false, opGone: false, opEvent: false, "new": false,
	} {
		if m := replayed(line{Op: op, ID: "a"}); slices.Contains(m.orphans, "a") != want || len(m.sessions) > 0 {
			t.Errorf("%s: %q, want it: %v", op, m.orphans, want)
		}
	}
	for name, l := range map[string]line{
		"without start": {Op: opStart, ID: "a"},
		"a bad ID":      {Op: opStart, ID: "../a", Start: &begun{Origin: origin.Origin{Agent: "main"}}},
		"no agent":      {Op: opStart, ID: "a", Start: &begun{Origin: origin.Origin{Agent: "../x"}}},
	} {
		if m := replayed(l); len(m.sessions) > 0 {
			t.Errorf("%s: %v", name, slices.Collect(maps.Keys(m.sessions)))
		}
	}
}

func TestReplayOfEvents(t *testing.T) {
	m := replayed(line{Op: opEvent, Event: &Event{}}, line{Op: opEvent, Event: &Event{Seq: 1}}, line{Op: opEvent}, line{Op: opEvent, Event: &Event{Seq: 2}})
	if got := m.events.all(); len(got) != 2 || got[0].Seq != 1 || got[1].Seq != 2 {
		t.Errorf("%+v", got)
	}
	m.replay(line{Op: opSeq, Offset: 9})
	if got := m.LastEvent(); got != 9 {
		t.Errorf("the last event is %d", got)
	}
}
