package session

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

// findAgain reports what is missing in the table. It restores the sessions that the
// executors have and the table lacks, because it is damaged, was cut off at the end of
// a line, or is gone. The returned channels are closed when the executors have been
// asked once.
func (m *Manager) findAgain(kept map[string]string) []<-chan struct{} {
	missing := map[string]string{} // the agent, or "" if it is not known
	if d := &m.journal.Damage; d.Any() {
		for _, id := range append(d.IDs(), m.orphans...) {
			if m.sessions[id] == nil {
				missing[id] = ""
			}
		}
		m.log.Error("the table of sessions is damaged; what could not be read is kept aside", "file", m.journal.Aside,
			"pieces", len(d.Pieces), "bytes", d.Size(), "missing", slices.Sorted(maps.Keys(missing)))
	}
	m.orphans = nil
	left := map[string]string{} // processes of removed sessions
	for id, agent := range kept {
		switch {
		case m.sessions[id] != nil || corral.ValidateID(id) != nil || ValidateAgent(agent) != nil:
		case m.leaving[id]:
			left[id] = agent
		default:
			missing[id] = agent
		}
	}
	if len(left) > 0 {
		m.spawn(func() { m.removeLeft(left) })
	}
	if len(missing) == 0 {
		return nil
	}
	agents := m.Agents()
	if !slices.Contains(agents, DefaultAgent) {
		agents = append(agents, DefaultAgent)
	}
	looked := make(chan struct{})
	close1 := sync.OnceFunc(func() { close(looked) })
	m.spawn(func() {
		defer close1()
		for n := 0; ; n++ {
			maps.DeleteFunc(missing, func(id, agent string) bool { return m.restore(id, agent, agents) })
			close1()
			if len(missing) == 0 || m.backoff(n) != nil {
				return
			}
		}
	})
	return []<-chan struct{}{looked}
}

// restore makes a session of a missing ID, if an agent's executor has the process and
// says that it is the agent's. It reports whether the question is answered.
func (m *Manager) restore(id, agent string, agents []string) bool {
	if agent != "" {
		agents = []string{agent}
	}
	settled := true
	for _, name := range agents {
		err := m.takeFor(name, id)
		switch {
		case err == nil:
			return true
		case errors.Is(err, corral.ErrNotFound):
		case errors.Is(err, corral.ErrUnavailable):
			settled = false
		default:
			m.log.Error("a session that is missing in the table cannot be taken in again", "session", id, "agent", name, "error", err)
		}
	}
	return settled
}

func (m *Manager) takeFor(agent, id string) error {
	ex, err := m.cfg.Executor(m.life, agent)
	if err != nil {
		return err
	}
	p, err := ex.Attach(m.life, id)
	if err != nil {
		return err
	}
	o := origin.Of(p)
	if o == nil || o.Agent != agent {
		return corral.Errorf(corral.ErrNotFound, "", "process %s is not known to be of agent %s", id, agent)
	}
	if _, err := m.Agent(agent).addProcess(p, *o, false); err != nil {
		return err
	}
	m.log.Warn("a session that was missing in the table was found again", "session", id, "agent", agent)
	return nil
}

// kept returns the processes that executors on this machine have records of, with their
// agents. It drops all other IDs from m.leaving.
func (m *Manager) kept() map[string]string {
	if m.cfg.Kept == nil {
		clear(m.leaving)
		return nil
	}
	kept, err := m.cfg.Kept()
	if err != nil {
		m.log.Error("cannot tell whether sessions are missing in the table: the records of what was run cannot be read", "error", err)
		return kept
	}
	maps.DeleteFunc(m.leaving, func(id string, _ bool) bool { return kept[id] == "" })
	return kept
}

// removeLeft removes the processes of removed sessions. A running process was not
// removed: it becomes a session again.
func (m *Manager) removeLeft(left map[string]string) {
	for n := 0; ; n++ {
		maps.DeleteFunc(left, func(id, agent string) bool {
			m.mu.Lock()
			again := m.sessions[id] != nil
			m.mu.Unlock()
			if again { // begun anew, under the same ID
				return true
			}
			ex, err := m.cfg.Executor(m.life, agent)
			var p corral.Process
			if err == nil {
				p, err = ex.Attach(m.life, id)
			}
			if err == nil {
				err = p.Remove(m.life)
			}
			switch {
			case errors.Is(err, corral.ErrRunning):
				return m.restore(id, agent, nil)
			case err != nil && !errors.Is(err, corral.ErrNotFound):
				return false
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.leaving, id)
			return true
		})
		if len(left) == 0 || m.backoff(n) != nil {
			return
		}
	}
}
