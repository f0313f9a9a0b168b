package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/located"
	"github.com/corral-exec/corral/internal/origin"
)

// A Session is a command of an agent. It is a corral.Process that stays the same even
// if the executor has to be asked for it again. Every method may be called from any
// goroutine.
type Session struct {
	m     *Manager
	id    string
	name  string
	start begun

	ready chan struct{} // closed when proc is set, or the session has ended
	done  chan struct{} // closed when end is set
	typed typing        // the known state of its terminal

	counted atomic.Pointer[atomic.Int64] // its agent's count of running sessions, while it is counted

	polling chan struct{} // a token: one poll at a time takes output

	mu         sync.Mutex
	proc       corral.Process // the executor's; nil before ready, and, if it ended in an earlier life, until it is needed
	info       *corral.Info
	node       string // identifies the node of info (see origin.NodeOf); empty also if only an earlier version noted info
	end        *ended // set once
	background bool
	gone       bool  // forgotten
	failed     error // of begin: nothing was started
	away       error // why the executor cannot be reached; nil if it can

	foreground int           // calls of Yield under way
	seers      int           // calls under way that will see the end
	held       int           // calls of Hold
	noticed    bool          // an event said that it runs
	owed       bool          // the end is no event so far, because a call was to see it
	announcing bool          // no call saw the end, and it is not recorded as an event yet
	killing    Reason        // why it is being killed
	killed     chan struct{} // closed when the kill has been given up, with killErr
	killErr    error

	polled int64 // output up to here has been handed out by Poll
	asked  int64 // the output before the input that a caller waits to be answered
	asking bool  // nobody waited or polled since that input
	empty  int   // polls in a row that found nothing
	size   int64 // size of the output at the last look
	sizeAt time.Time
}

func newSession(m *Manager, id string, start begun) *Session {
	start.Merged = start.Merged || start.TTY // a terminal has one stream
	return &Session{
		m: m, id: id, name: Name(start.Command), start: start, background: start.Background,
		ready: make(chan struct{}), done: make(chan struct{}), polling: make(chan struct{}, 1), sizeAt: start.At,
	}
}

// ID is the ID of the session and of its process.
func (s *Session) ID() string { return s.id }

// begin starts the command of a session that is already in the table.
func (s *Session) begin(ctx context.Context, cmd corral.Command) error {
	if err := s.m.journal.add(line{Op: opStart, ID: s.id, Start: &s.start}); err != nil {
		return s.notBegun(err)
	}
	ex, err := s.m.cfg.Executor(ctx, s.start.Agent)
	if err != nil {
		return s.notBegun(err)
	}
	p, err := ex.Start(ctx, cmd)
	switch {
	case errors.Is(err, corral.ErrLost):
		s.mu.Lock()
		s.background, s.away = true, err
		if ctx.Err() != nil {
			s.killing = ReasonCancelled
			// As in beginKill.
			_ = s.m.journal.add(line{Op: opKill, ID: s.id, Reason: s.killing})
		}
		s.mu.Unlock()
		s.m.spawn(func() { s.adopt(func() {}) })
		return corral.Errorf(corral.ErrLost, "see what became of session "+s.id, "it is not known whether session %s began: %w", s.id, err)
	case err != nil:
		return s.notBegun(err)
	}
	s.found(p)
	info := p.Info()
	if s.start.Background || info.Notice != "" || len(info.Warnings) > 0 || info.Host == corral.HostNode {
		// A caller that has seen the command run must never hear that it did not. And
		// the executor that the next life asks may not know all of Info, such as the
		// reason of the route. The next life asks no node but this one.
		s.noteBegun(p)
	}
	s.m.log.Info("a command was started", "session", s.id, "agent", s.start.Agent, "key", s.start.Key, "host", string(info.Host), "node", info.Node)
	s.m.spawn(func() { s.watch(p) })
	s.spawnNotice()
	return nil
}

// noteBegun records what is known of the process.
func (s *Session) noteBegun(p corral.Process) {
	info := p.Info()
	if err := s.m.journal.add(line{Op: opBegun, ID: s.id, Info: &info, Node: origin.NodeOf(p)}); err != nil {
		s.m.log.Warn("what is known of the process of a session may be forgotten", "session", s.id, "error", err)
	}
}

// spawnNotice starts notice, if the session wants it.
func (s *Session) spawnNotice() {
	if s.start.Notice > 0 {
		s.m.spawn(s.notice)
	}
}

// notBegun forgets a session whose command was not started.
func (s *Session) notBegun(err error) error {
	s.mu.Lock()
	s.failed, s.gone = err, true
	close(s.ready)
	s.mu.Unlock()
	if kept := s.m.drop(s, ""); kept != nil {
		s.m.log.Warn("a session whose command was not started may be listed again by the next gateway", "session", s.id, "error", kept)
	}
	return err
}

// found stores the process: the first time, or again for the same process.
func (s *Session) found(p corral.Process) {
	info := p.Info()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info != nil && len(s.info.Warnings) > len(info.Warnings) {
		info.Warnings = s.info.Warnings
	}
	if s.info != nil && len(s.info.Notice) > len(info.Notice) {
		info.Notice = s.info.Notice
	}
	s.proc, s.info, s.node, s.away = p, &info, origin.NodeOf(p), nil
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

// adopt resumes a session whose state is not known. It calls looked when the executor
// was asked once.
func (s *Session) adopt(looked func()) {
	defer looked()
	if !s.start.Background { // its caller is gone with the program
		if err := s.toBackground(); err != nil {
			s.m.log.Warn("cannot note that a session is in the background", "session", s.id, "error", err)
		}
	}
	p := s.reattach(looked)
	if p == nil {
		return
	}
	s.spawnNotice()
	s.mu.Lock()
	kill := s.killing
	s.mu.Unlock()
	if kill != "" {
		s.m.spawn(s.kill)
	}
	s.watch(p)
}

// reattach asks the executor for the process until it answers. Nil: the session has
// ended, or the Manager is closed.
func (s *Session) reattach(looked func()) corral.Process {
	for n := 0; ; n++ {
		p, err := s.attach(s.m.life)
		switch {
		case err == nil:
			s.mu.Lock()
			news := s.node != origin.NodeOf(p)
			s.mu.Unlock()
			if s.found(p); news {
				s.noteBegun(p)
			}
			looked()
			return p
		case s.m.life.Err() != nil:
			return nil
		case errors.Is(err, corral.ErrNotFound):
			s.notFound(err)
			return nil
		case errors.Is(err, corral.ErrLost):
			s.finishUnseen(Unknown, ReasonLost, err.Error())
			return nil
		}
		s.mu.Lock()
		s.away = err
		s.mu.Unlock()
		if n == 0 {
			s.m.log.Warn("a session cannot be reached; trying again", "session", s.id, "agent", s.start.Agent, "error", err)
		}
		looked()
		if s.m.backoff(n) != nil {
			return nil
		}
	}
}

func (s *Session) attach(ctx context.Context) (corral.Process, error) {
	ex, err := s.m.cfg.Executor(ctx, s.start.Agent)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	known, node := s.info, s.node
	s.mu.Unlock()
	if known == nil {
		return ex.Attach(ctx, s.id)
	}
	p, err := ex.Attach(located.With(ctx, located.Place{Host: string(known.Host), Node: node}), s.id)
	if err != nil {
		return nil, err
	}
	at := p.Info()
	if at.Host != known.Host || node != "" && origin.NodeOf(p) != node || node == "" && at.Node != known.Node {
		return nil, corral.Errorf(corral.ErrUnavailable, "see whether a node lies", "session %s is on %s, and cannot have moved to %s", s.id, spot(*known), spot(at))
	}
	return p, nil
}

// spot says where a process is.
func spot(info corral.Info) string { return strings.TrimSpace(string(info.Host) + " " + info.Node) }

// notFound ends a session that the executor does not know.
func (s *Session) notFound(err error) {
	s.mu.Lock()
	began := s.info != nil
	s.mu.Unlock()
	if s.m.journal.Inside && !began { // the lines that told more may be lost
		s.finishUnseen(Unknown, ReasonLost, "the table of sessions was damaged, and its executor does not know it: "+err.Error())
		return
	}
	if began {
		s.finishUnseen(Unknown, ReasonLost, "its executor does not know it any more: "+err.Error())
		return
	}
	s.finishUnseen(Failed, ReasonNotStarted, "the gateway stopped before the command was started; nothing ran")
}

// finishUnseen ends a session now without an Exit.
func (s *Session) finishUnseen(state State, reason Reason, detail string) {
	s.finish(ended{Outcome: Outcome{State: state, Reason: reason, Detail: detail}, At: time.Now().UTC()})
}

// watch waits for the end, and reattaches as often as needed.
func (s *Session) watch(p corral.Process) {
	stop := s.watchTerminal(p)
	for {
		exit, err := p.Wait(s.m.life)
		switch {
		case err == nil:
			stop()
			s.finish(s.endOf(exit))
			return
		case s.m.life.Err() != nil:
			stop()
			return
		case errors.Is(err, corral.ErrLost):
			stop()
			s.finishUnseen(Unknown, ReasonLost, err.Error())
			return
		}
		if s.m.backoff(0) != nil {
			stop()
			return
		}
		if p = s.reattach(func() {}); p == nil {
			stop()
			return
		}
	}
}

// endOf turns an exit into the end of a session.
func (s *Session) endOf(exit corral.Exit) ended {
	e := ended{Outcome: Outcome{State: Completed, Exit: &exit}, At: exit.EndedAt}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case exit.Reason == corral.ReasonTimeout:
		e.State, e.Reason = Failed, ReasonTimeout
	case s.killing != "":
		e.State, e.Reason = Failed, s.killing
	case exit.Reason == corral.ReasonOOM:
		e.State, e.Reason = Failed, ReasonOOM
	}
	return e
}

// finish records the end, and the event if there is one, in one line. The session
// counts as running until that is written.
func (s *Session) finish(e ended) {
	tail := ""
	if st, err := s.logStat(s.m.life); err == nil { // the output may be unreachable
		e.Size, e.Gap = st.Size, st.Gap()
		tail, _ = s.Tail(s.m.life, eventTail) // an event without a tail is better than no event
	}
	for n := 0; ; n++ {
		err := s.tryFinish(e, tail)
		if err == nil {
			break
		}
		if n == 0 {
			s.m.log.Error("the end of a session cannot be recorded; trying again", "session", s.id, "error", err)
		}
		if s.m.backoff(n) != nil {
			return
		}
	}
	if s.kept() {
		s.m.wakeJanitor()
	}
}

// kept reports whether the session stays after its end.
func (s *Session) kept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.background || s.start.Keep
}

// eventTail is how much output goes into an event's tail, in bytes.
const eventTail = 2000

func (s *Session) tryFinish(e ended, tail string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return nil
	}
	// No event for a session that never began: no caller was told that it had begun.
	notify := s.start.Notify && s.background && !s.gone && e.Reason != ReasonNotStarted
	s.owed = notify && s.seers > 0
	l := line{Op: opEnd, ID: s.id, Info: s.info, End: &e, Owed: s.owed}
	var err error
	switch {
	case notify && s.seers == 0:
		err = s.m.events.add(s.event(e, tail), func(ev *Event) error {
			l.Event = ev
			return s.m.journal.add(l)
		})
	case s.background || s.start.Keep:
		err = s.m.journal.add(l)
	}
	// The end of a session in the foreground is not written: it is forgotten soon, and
	// until then the executor knows the end.
	if err == nil {
		s.markEnded(e)
	}
	return err
}

// markEnded ends the session. s.mu is held, or no other goroutine has s.
func (s *Session) markEnded(e ended) {
	s.end = &e
	s.uncount()
	if e.Exit == nil || !e.Exit.Success() {
		s.m.failed.Add(1)
	}
	close(s.done)
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

// expectEnd registers a call that will see the end, so that no event is needed. Call
// over when the call ends; gaveUp reports that it did not see the end.
func (s *Session) expectEnd() (over func(gaveUp bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seers++
	return func(gaveUp bool) {
		s.mu.Lock()
		s.seers--
		owed := s.owed && s.end != nil && (!gaveUp || s.seers == 0)
		if owed {
			s.owed, s.announcing = false, gaveUp
		}
		s.mu.Unlock()
		switch {
		case !owed:
		case gaveUp: // all calls that were to see the end gave up
			s.announce()
		default:
			s.noteSeen()
		}
	}
}

// noteSeen keeps the next life from making an event of the end.
func (s *Session) noteSeen() {
	if err := s.m.journal.add(line{Op: opSeen, ID: s.id}); err != nil {
		s.m.log.Warn("cannot note that the end of a session was seen; after a restart it may be an event", "session", s.id, "error", err)
	}
}

// announce makes the event of an end that no call saw. If it cannot be recorded it is
// tried again, if need be by the next life.
func (s *Session) announce() {
	tail, _ := s.Tail(s.m.life, eventTail)
	err := s.tryAnnounce(tail)
	if err == nil {
		return
	}
	s.m.log.Error("an event cannot be recorded; trying again", "session", s.id, "error", err)
	s.m.spawn(func() {
		for n := 0; s.m.backoff(n) == nil && s.tryAnnounce(tail) != nil; n++ {
		}
	})
}

func (s *Session) tryAnnounce(tail string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.m.events.add(s.event(*s.end, tail), func(ev *Event) error {
		return s.m.journal.add(line{Op: opSeen, ID: s.id, Event: ev})
	})
	s.announcing = err != nil
	return err
}

func (s *Session) hasEnded() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *Session) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		return Running
	}
	return s.end.State
}

// reachLimit bounds the wait of calls for an executor that cannot be reached.
const reachLimit = 30 * time.Second

// attached waits until the state of the session is known. ErrNotFound: it never began.
// ErrUnavailable: its host cannot be reached.
func (s *Session) attached(ctx context.Context) error {
	limit := time.NewTimer(reachLimit)
	defer limit.Stop()
	for waiting := true; waiting; {
		select {
		case <-s.ready:
			waiting = false
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.m.life.Done():
			waiting = false
		case <-limit.C: // a session that is being started may take its time
			if err := s.unreachable(); err != nil {
				return err
			}
			limit.Reset(reachLimit)
		}
	}
	if s.m.life.Err() != nil {
		return errClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil || s.gone:
		return corral.Errorf(corral.ErrNotFound, "", "no session found for %s", s.id)
	case s.end != nil && s.end.Reason == ReasonNotStarted:
		return corral.Errorf(corral.ErrNotFound, "it is safe to begin it again", "session %s never began: %s", s.id, s.end.Detail)
	}
	return nil
}

// unreachable returns an error if the state of the session cannot be known now.
func (s *Session) unreachable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		return nil
	}
	return corral.Errorf(corral.ErrUnavailable, corral.Hint(s.away), "session %s cannot be reached; it is known again when where it runs is back: %w", s.id, s.away)
}

// process returns the executor's process. It asks the executor if this life of the
// program has not yet done so.
func (s *Session) process(ctx context.Context) (corral.Process, error) {
	if err := s.attached(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := s.attach(ctx)
	if errors.Is(err, corral.ErrNotFound) {
		return nil, corral.Errorf(corral.ErrLost, "", "the output of session %s is no longer kept: %w", s.id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach session %s: %w", s.id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		s.proc = p
	}
	return s.proc, nil
}
