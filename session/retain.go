package session

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/corral-exec/corral/internal/turn"
)

// Retention bounds the sessions that are kept after their end. The oldest go first; for
// Bytes, those of the key whose sessions have most output, so that no key makes the gateway
// forget what others ran. A session that runs, that a call waits for or holds, or that is to
// linger, is never forgotten.
type Retention struct {
	Count int           // sessions of one agent; 0: 200
	Bytes int64         // output of all sessions; 0: 2 GiB
	Age   time.Duration // since the end; 0: 24 hours
}

func (r Retention) withDefaults() Retention {
	r.Count = cmp.Or(r.Count, 200)
	r.Bytes = cmp.Or(r.Bytes, 2<<30)
	r.Age = cmp.Or(r.Age, 24*time.Hour)
	return r
}

const (
	sweepEvery = time.Minute // for age
	sweepPause = time.Second // at least, between two sweeps
	sweepLimit = time.Minute // for one sweep
)

func (m *Manager) wakeJanitor() {
	turn.Offer(m.sweep, struct{}{})
}

// janitor forgets sessions beyond the Retention, until the Manager is closed.
func (m *Manager) janitor() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.life.Done():
			return
		case <-tick.C:
		case <-m.sweep:
		}
		m.sweepOnce(time.Now())
		if err := m.journal.compact(m.snapshot); err != nil {
			m.log.Warn("the table of sessions cannot be written anew, and grows", "error", err)
		}
		if !pause(m.life, sweepPause) {
			return
		}
	}
}

func (m *Manager) sweepOnce(now time.Time) {
	ctx, cancel := context.WithTimeout(m.life, sweepLimit)
	defer cancel()
	for _, s := range tooMuch(m.endedSessions(now), m.cfg.Retention, now) {
		if err := s.retire(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("a session cannot be removed", "session", s.id, "error", err)
		}
	}
}

// retire forgets a session beyond the Retention. A process that another program began
// is left for that program to remove.
func (s *Session) retire(ctx context.Context) error {
	if !s.start.Foreign {
		return s.forget(ctx)
	}
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	return s.m.drop(s, "")
}

// Hold spares a session from Retention, also after its end, until release is called: by who
// reads its output and will ask how it ended.
func (s *Session) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held--
	}
}

// remnant is a session that has ended.
type remnant struct {
	*Session
	at    time.Time
	bytes int64
}

// endedSessions returns the sessions that may be forgotten, the newest first.
func (m *Manager) endedSessions(now time.Time) []remnant {
	var list []remnant
	for _, s := range m.all() {
		s.mu.Lock()
		if s.end != nil && s.seers == 0 && s.held == 0 && now.Sub(s.end.At) >= s.start.Linger {
			list = append(list, remnant{Session: s, at: s.end.At, bytes: s.end.Size - s.end.Gap})
		}
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b remnant) int { return b.at.Compare(a.at) })
	return list
}

// tooMuch returns the sessions to forget from a list, the newest first.
func tooMuch(list []remnant, keep Retention, now time.Time) []*Session {
	var out []*Session
	var bytes int64
	counts, of, kept := map[string]int{}, map[string]int64{}, map[string][]remnant{} // the last two by key
	for _, r := range list {
		if counts[r.start.Agent]++; counts[r.start.Agent] > keep.Count || now.Sub(r.at) > keep.Age {
			out = append(out, r.Session)
			continue
		}
		if r.bytes > 0 {
			bytes += r.bytes
			of[r.start.Key] += r.bytes
			kept[r.start.Key] = append(kept[r.start.Key], r)
		}
	}
	for bytes > keep.Bytes {
		most := slices.MaxFunc(slices.Collect(maps.Keys(of)), func(a, b string) int {
			return cmp.Or(cmp.Compare(of[a], of[b]), cmp.Compare(a, b))
		})
		oldest := kept[most][len(kept[most])-1]
		kept[most] = kept[most][:len(kept[most])-1]
		bytes -= oldest.bytes
		of[most] -= oldest.bytes
		out = append(out, oldest.Session)
	}
	return out
}
