package session

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
)

// lookLimit bounds the time that Status waits for a host. A node that is switched off
// must not delay a list of all sessions.
const lookLimit = time.Second

// Status describes the session now. It never fails: what the host does not tell within
// a second is the last known value.
func (s *Session) Status(ctx context.Context) Status {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	stat, statErr := s.logStat(ctx)
	prompt := statErr == nil && s.waitsForInput(ctx, stat.Size)
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := errors.Is(statErr, corral.ErrUnavailable) || errors.Is(statErr, context.DeadlineExceeded)
	st := Status{
		ID: s.id, Agent: s.start.Agent, Key: s.start.Key, Outcome: Outcome{State: Running}, Name: s.name, Command: s.start.Command, Description: s.start.For,
		TTY: s.start.TTY, Stdin: s.start.Stdin || s.start.TTY, StartedAt: s.start.At,
		Background: s.background, Unreachable: (s.away != nil || silent && s.proc != nil) && s.end == nil,
	}
	if s.info != nil {
		st.PID, st.Host, st.Node, st.Sandboxed = s.info.PID, s.info.Host, s.info.Node, s.info.Sandboxed
		st.Dir, st.StartedAt, st.Warnings = s.info.Dir, s.info.StartedAt, s.info.Warnings
		st.Notice, st.Enforced = s.info.Notice, s.info.Enforced
	}
	if e := s.end; e != nil {
		st.Outcome = e.Outcome
		if e.Exit != nil && len(e.Exit.Refused) > 0 {
			st.Warnings = append(st.Warnings[:len(st.Warnings):len(st.Warnings)], st.Enforced.Refusal(e.Exit.Refused))
		}
		at := e.At
		st.EndedAt, st.OutputBytes, st.OmittedBytes = &at, e.Size, e.Gap
		return st
	}
	st.OutputBytes = s.size
	if statErr == nil {
		st.OutputBytes, st.OmittedBytes = stat.Size, stat.Gap()
	}
	st.WaitingForInput = st.Stdin && prompt
	return st
}

// Is reports whether the session is the one with that start time (from Status). An ID
// that was removed may belong to a later session by now.
func (s *Session) Is(startedAt time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info != nil && s.info.StartedAt.Equal(startedAt) || !startedAt.Before(s.start.At)
}

// waitsForInput guesses whether a command that can read input waits for input, given
// that it has printed size bytes.
func (s *Session) waitsForInput(ctx context.Context, size int64) bool {
	s.mu.Lock()
	if size != s.size {
		s.size, s.sizeAt = size, time.Now()
	}
	idle, p := time.Since(s.sizeAt), s.proc
	asked := (s.start.Stdin || s.start.TTY) && s.end == nil && p != nil
	s.mu.Unlock()
	switch {
	case !asked:
		return false
	case idle >= InputIdle:
		return true
	case idle < PromptIdle || size == 0:
		return false
	}
	return atPrompt(ctx, p.Log(), size)
}

// promptTail is how much output is searched for a prompt, in bytes.
const promptTail = 256

// unseen matches invisible output that may follow the end of a line: sequences that set
// colours, modes and titles, or clear the rest of the line. A shell switches bracketed
// paste off when it has read a command.
var unseen = lazy.Regexp(`(?:\r|\x1b(?:\[[0-?]*[hlmK]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z]|[=>]))+\z`)

// atPrompt reports whether output of that size ends with a prompt: visible text without
// an end of line.
func atPrompt(ctx context.Context, log corral.Log, size int64) bool {
	var buf [promptTail]byte
	tail := buf[:0]
	for off := max(0, size-promptTail); off < size; {
		c, err := log.Read(ctx, off, buf[len(tail):])
		if err != nil || len(c.Data) == 0 {
			return false
		}
		tail = append(tail, c.Data...)
		off = c.Next()
	}
	tail = tail[:len(tail)-len(unseen().Find(tail))]
	return len(tail) > 0 && tail[len(tail)-1] != '\n'
}
