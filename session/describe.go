package session

import (
	"context"
	"regexp"
	"time"

	"github.com/corral-exec/corral"
)

// Status describes the session now. It never fails: what cannot be asked for
// is as it was known last.
func (s *Session) Status(ctx context.Context) Status {
	stat, statErr := s.logStat(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		ID: s.id, Agent: s.start.Agent, State: Running, Name: s.name, Command: s.start.Text,
		TTY: s.start.TTY, Stdin: s.start.Stdin || s.start.TTY, StartedAt: s.start.At,
		Background: s.background, Unreachable: s.away != nil && s.end == nil,
	}
	if s.info != nil {
		st.PID, st.Host, st.Node, st.Sandboxed = s.info.PID, s.info.Host, s.info.Node, s.info.Sandboxed
		st.Dir, st.StartedAt, st.Warnings = s.info.Dir, s.info.StartedAt, s.info.Warnings
	}
	if e := s.end; e != nil {
		st.State, st.Reason, st.Detail, st.Exit = e.State, e.Reason, e.Detail, exitOf(e.Exit)
		at := e.At
		st.EndedAt, st.OutputBytes, st.OmittedBytes = &at, e.Size, e.Gap
		return st
	}
	if statErr == nil {
		if stat.Size != s.size {
			s.size, s.sizeAt = stat.Size, time.Now()
		}
		st.OutputBytes, st.OmittedBytes = stat.Size, stat.Gap()
	}
	if st.Stdin && s.proc != nil {
		st.WaitingForInput = s.waitsForInput(ctx, s.proc.Log(), time.Since(s.sizeAt))
	}
	return st
}

// waitsForInput guesses whether a command that can read input waits for some.
func (s *Session) waitsForInput(ctx context.Context, log corral.Log, idle time.Duration) bool {
	if idle >= InputIdle {
		return true
	}
	if idle < PromptIdle || s.size == 0 {
		return false
	}
	return s.atPrompt(ctx, log)
}

// promptTail is how much of the output is looked at for a prompt.
const promptTail = 256

// unseen is what may follow the end of a line without beginning the next one:
// what sets colours, modes and titles, and clears the rest of the line. A shell
// switches bracketed paste off when it has read a command.
var unseen = regexp.MustCompile(`(?:\r|\x1b(?:\[[0-?]*[hlmK]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z]|[=>]))+\z`)

// atPrompt reports whether the output ends with a prompt: with something to be
// seen that does not end its line.
func (s *Session) atPrompt(ctx context.Context, log corral.Log) bool {
	var buf [promptTail]byte
	tail := buf[:0]
	for off := max(0, s.size-promptTail); off < s.size; {
		c, err := log.Read(ctx, off, buf[len(tail):])
		if err != nil || len(c.Data) == 0 {
			return false
		}
		tail = append(tail, c.Data...)
		off = c.Next()
	}
	tail = tail[:len(tail)-len(unseen.Find(tail))]
	return len(tail) > 0 && tail[len(tail)-1] != '\n'
}
