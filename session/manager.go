package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
)

// Config of a Manager. Dir and Executor are required.
type Config struct {
	// Dir holds the table of sessions. It is created if needed. One Manager at a time
	// can have it open.
	Dir string
	// Executor returns the executor of an agent's commands. It is called for each command,
	// so it does not open one each time. The Manager does not close executors; close them
	// after it.
	Executor func(ctx context.Context, agent string) (corral.Executor, error)

	// Elsewhere finds processes that other gateways started on nodes for the same
	// agents. Only processes with an Origin count. Nil: there are none.
	Elsewhere func(ctx context.Context, id string) (corral.Process, error)

	// Kept returns the processes that executors on this machine have records of, as a
	// map from ID to agent. Open makes those that are missing in the table sessions
	// again. Nil: there are none.
	Kept func() (map[string]string, error)

	Retention Retention
	// MaxRunning bounds the running sessions of one agent; 0: 1000.
	MaxRunning int

	Log *slog.Logger
}

const defaultMaxRunning = 1000

// DefaultAgent is the agent of sessions without one.
const DefaultAgent = "main"

// ValidateAgent reports whether name can be an agent's.
func ValidateAgent(name string) error {
	if err := corral.ValidateID(name); err != nil {
		return corral.Errorf(corral.ErrInvalid, corral.Hint(err), "%q is no name of an agent: %w", name, err)
	}
	if name == "default" { // in the file of approvals its rules would be those of main
		return corral.Errorf(corral.ErrInvalid, "use "+DefaultAgent+", or another name", "%q is no name of an agent: it was once that of the agent %s", name, DefaultAgent)
	}
	return nil
}

// A Manager keeps the sessions of all agents.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	journal *table
	events  *eventLog

	life context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup

	draining chan struct{} // closed by Drain
	drain    sync.Once
	sweep    chan struct{} // wakes the janitor

	announcing sync.Mutex // one of Announce at a time

	mu       sync.Mutex
	closed   bool
	sessions map[string]*Session
	running  map[string]*atomic.Int64 // sessions without an end, by agent
	leaving  map[string]bool          // removed here, but perhaps not yet by their executor

	begun, failed atomic.Int64 // see Totals

	orphans []string // IDs that later lines name but no line begins
}

var (
	errClosed   = corral.Errorf(corral.ErrUnavailable, "", "the gateway's sessions are closed")
	errDraining = corral.Errorf(corral.ErrUnavailable, "try again when it is back", "the gateway is stopping, and starts nothing")
)

// firstLook bounds the time that Open waits for executors to report on sessions without
// an end. Those of a sandbox that is paused answer when it is resumed, and clients give up
// connecting after some seconds.
const firstLook = 3 * time.Second

// Open opens the table and attaches to the processes of earlier lives of the program.
// Executors that cannot be reached are asked again in the background.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if cfg.Dir == "" || cfg.Executor == nil {
		return nil, corral.Errorf(corral.ErrInvalid, "set Dir and Executor", "the configuration of sessions is incomplete")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.MaxRunning = cmp.Or(cfg.MaxRunning, defaultMaxRunning)
	cfg.Retention = cfg.Retention.withDefaults()
	m := &Manager{
		cfg: cfg, log: cfg.Log, events: newEventLog(),
		draining: make(chan struct{}), sweep: make(chan struct{}, 1),
		sessions: map[string]*Session{}, running: map[string]*atomic.Int64{}, leaving: map[string]bool{},
	}
	var err error
	if m.journal, err = openJournal(cfg.Dir, m.replay, m.log); err != nil {
		return nil, err
	}
	m.failed.Store(0) // what is in the table ended in earlier lives
	kept := m.kept()
	if err := m.journal.compact(m.snapshot); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write the table of sessions anew: %w", err), m.journal.Close())
	}
	m.life, m.end = context.WithCancel(context.Background())
	looked := append(m.adoptAll(), m.findAgain(kept)...)
	m.spawn(m.janitor)
	look, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	for _, done := range looked {
		select {
		case <-done:
		case <-look.Done():
		}
	}
	return m, nil
}

// replay applies one line of the journal. No other goroutine has m yet.
func (m *Manager) replay(l line) {
	if l.Op == opSeq {
		m.events.floor(l.Offset)
		return
	}
	if l.Event != nil && l.Event.Seq > 0 {
		m.events.show(*l.Event)
	}
	if l.Op == opStart {
		if l.Start != nil && corral.ValidateID(l.ID) == nil && ValidateAgent(l.Start.Agent) == nil {
			m.pull(m.sessions[l.ID])
			m.put(newSession(m, l.ID, *l.Start))
			delete(m.leaving, l.ID)
		}
		return
	}
	if l.Op == opGone {
		m.pull(m.sessions[l.ID])
		if l.Reason == reasonRemoved {
			m.leaving[l.ID] = true
		}
		return
	}
	s := m.sessions[l.ID]
	if s == nil {
		if l.Op == opBegun || l.Op == opBackground || l.Op == opPolled || l.Op == opKill || l.Op == opNotice || l.Op == opEnd {
			m.orphans = append(m.orphans, l.ID)
		}
		return
	}
	switch l.Op {
	case opBegun:
		s.info, s.node = l.Info, l.Node
	case opBackground:
		s.background = true
		s.info = cmp.Or(l.Info, s.info)
	case opKill:
		s.killing = l.Reason
	case opNotice:
		s.noticed = true
	case opPolled:
		s.polled = l.Offset
	case opSeen:
		s.owed = false
	case opEnd:
		if l.End != nil && !s.hasEnded() {
			s.info = cmp.Or(l.Info, s.info)
			s.owed = l.Owed
			s.start.Keep = true // only kept sessions have an end in the journal
			s.markEnded(*l.End)
		}
	}
}

// snapshot returns an equivalent journal with few lines.
func (m *Manager) snapshot() []line {
	lines := []line{{Op: opSeq, Offset: m.LastEvent()}}
	for _, e := range m.events.all() {
		lines = append(lines, line{Op: opEvent, Event: &e})
	}
	m.mu.Lock()
	for id := range m.leaving {
		lines = append(lines, line{Op: opGone, ID: id, Reason: reasonRemoved})
	}
	m.mu.Unlock()
	for _, s := range m.all() {
		lines = append(lines, s.lines()...)
	}
	return lines
}

// lines returns the lines of the journal for a session.
func (s *Session) lines() []line {
	s.mu.Lock()
	defer s.mu.Unlock()
	start, id := s.start, s.id
	lines := []line{{Op: opStart, ID: id, Start: &start}}
	if s.info != nil {
		lines = append(lines, line{Op: opBegun, ID: id, Info: s.info, Node: s.node})
	}
	if s.background {
		lines = append(lines, line{Op: opBackground, ID: id})
	}
	if s.killing != "" {
		lines = append(lines, line{Op: opKill, ID: id, Reason: s.killing})
	}
	if s.noticed {
		lines = append(lines, line{Op: opNotice, ID: id})
	}
	if s.polled > 0 {
		lines = append(lines, line{Op: opPolled, ID: id, Offset: s.polled})
	}
	if s.end != nil && (s.background || s.start.Keep) { // see tryFinish
		lines = append(lines, line{Op: opEnd, ID: id, End: s.end, Owed: s.owed || s.announcing})
	}
	return lines
}

// adoptAll resumes every session without an end. The returned channels are closed when
// the executors have been asked once.
func (m *Manager) adoptAll() []<-chan struct{} {
	var looked []<-chan struct{}
	for _, s := range m.sessions {
		if s.hasEnded() {
			if s.owed { // its call ended with the program
				s.owed, s.announcing = false, true
				m.spawn(s.announce)
			}
			continue
		}
		done := make(chan struct{})
		looked = append(looked, done)
		m.spawn(func() { s.adopt(sync.OnceFunc(func() { close(done) })) })
	}
	return looked
}

// spawn runs f in a goroutine that ends with the Manager, unless the Manager is closed.
func (m *Manager) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.wg.Go(f)
	}
	return !m.closed
}

// Drain is the first step of a stop. Calls with a session in their foreground return,
// with the session in the background. No new session is started.
func (m *Manager) Drain() { m.drain.Do(func() { close(m.draining) }) }

// Close releases every session. Commands go on, and the next Manager of the directory
// finds them.
func (m *Manager) Close() error {
	m.Drain()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.wg.Wait()
	return m.journal.Close()
}

// Counts returns the number of sessions by state.
func (m *Manager) Counts() map[State]int {
	counts := map[State]int{}
	for _, s := range m.all() {
		counts[s.state()]++
	}
	return counts
}

// Totals are how many sessions began, and how many ended in another way than by
// themselves with the exit code 0, since Open. They only grow.
func (m *Manager) Totals() (begun, failed int64) { return m.begun.Load(), m.failed.Load() }

func (m *Manager) all() []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.sessions))
}

// add puts a new session into the table, or returns the one that has its ID.
func (m *Manager) add(ctx context.Context, s *Session) (existing *Session, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.sessions[s.id]; old != nil {
		return old, nil
	}
	if n := m.running[s.start.Agent]; n != nil && n.Load() >= int64(m.cfg.MaxRunning) {
		return nil, corral.Errorf(corral.ErrUnavailable, "kill some with the process tool, or wait for one to end",
			"agent %s has %d running sessions, and may have no more", s.start.Agent, n.Load())
	}
	if err := m.within(ctx); err != nil {
		return nil, err
	}
	m.put(s)
	m.begun.Add(1)
	return nil, nil
}

// put adds a session without an end to the table. mu is held.
func (m *Manager) put(s *Session) {
	m.sessions[s.id] = s
	n := m.running[s.start.Agent]
	if n == nil {
		n = new(atomic.Int64)
		m.running[s.start.Agent] = n
	}
	n.Add(1)
	s.counted.Store(n)
}

// pull removes a session, which may be nil, from the table. mu is held.
func (m *Manager) pull(s *Session) {
	if s == nil {
		return
	}
	delete(m.sessions, s.id)
	s.uncount()
	if n := m.running[s.start.Agent]; n != nil && n.Load() == 0 {
		delete(m.running, s.start.Agent)
	}
}

// uncount stops counting a session as running.
func (s *Session) uncount() {
	if n := s.counted.Swap(nil); n != nil {
		n.Add(-1)
	}
}

// reasonRemoved: the session was removed, so its process has to be removed too.
const reasonRemoved Reason = "removed"

// drop removes a session from the table. The journal records that, with the reason,
// before another session can have the ID.
func (m *Manager) drop(s *Session, why Reason) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.id] != s {
		return nil
	}
	err := m.journal.add(line{Op: opGone, ID: s.id, Reason: why})
	if err != nil && why == reasonRemoved {
		return err // it stays, and can be removed again
	}
	m.pull(s)
	if why == reasonRemoved {
		m.leaving[s.id] = true
	}
	return err
}

// isDraining reports whether new sessions are refused.
func (m *Manager) isDraining() bool {
	select {
	case <-m.draining:
		return true
	default:
		return false
	}
}

// backoff waits before the n-th attempt. The error says that the Manager is closed.
func (m *Manager) backoff(n int) error {
	if !pause(m.life, min(100*time.Millisecond<<min(n, 10), 5*time.Second)) {
		return errClosed
	}
	return nil
}

// pause waits for d. It reports whether the time passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
