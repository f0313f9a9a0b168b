package session

import (
	"context"
	"errors"
	"io"
	"regexp"
	"time"

	"github.com/corral-exec/corral"
)

// MaxWait bounds a WaitFor.
const MaxWait = 30 * time.Minute

// Met is the condition that ended a WaitFor.
type Met string

const (
	MetExit    Met = "exit"
	MetOutput  Met = "output"
	MetPattern Met = "pattern"
	MetNothing Met = "" // the time is over
)

// WaitOptions say what to wait for. The end of the session always ends the
// wait.
type WaitOptions struct {
	Output  bool           // any output
	Pattern *regexp.Regexp // output that matches
	// Offset is where the awaited output begins. Nil: after the output that polls have
	// returned, and that was there before the last input (see [Session.Ask]).
	Offset  *int64
	Timeout time.Duration // 0 or more than MaxWait: MaxWait
}

// Waited is how a wait ended.
type Waited struct {
	Status Status
	Met    Met
	Match  string // the text that matched the pattern
	Offset int64  // where the match, or the new output, begins
	Next   int64  // where it ends: the offset of the output after it
}

// WaitFor waits for output, for output that matches a pattern, or for the end.
// It takes nothing from Poll. An end that it sees is no event.
//
// A pattern is matched against the output as text, as it arrives, across chunks: at
// least the maxMatch bytes before the newest output take part.
func (s *Session) WaitFor(ctx context.Context, o WaitOptions) (Waited, error) {
	if o.Timeout < 0 || o.Offset != nil && *o.Offset < 0 {
		return Waited{}, corral.Errorf(corral.ErrInvalid, "0 is the default of each", "the time-out or the offset is negative")
	}
	if err := s.attached(ctx); err != nil && !s.hasEnded() {
		return Waited{}, err
	}
	if o.Timeout == 0 || o.Timeout > MaxWait {
		o.Timeout = MaxWait
	}
	over := s.expectEnd()
	w, err := s.waitFor(ctx, o)
	over(err != nil || !w.Status.Ended())
	return w, err
}

func (s *Session) waitFor(ctx context.Context, o WaitOptions) (Waited, error) {
	wait, cancel := s.m.waiting(ctx, o.Timeout)
	defer cancel()
	s.mu.Lock()
	from := max(s.polled, s.asked)
	s.asking = s.asking && o.Offset != nil
	s.mu.Unlock()
	if o.Offset != nil {
		from = *o.Offset
	}
	w := Waited{Offset: from, Next: from}
	err := s.waitOutput(wait, o, &w)
	if err == nil && w.Met == MetNothing { // the output has ended
		err = s.awaitEnd(wait)
	}
	if err != nil && !errors.Is(err, errWaited) {
		return Waited{}, err
	}
	w.Status = s.Status(ctx)
	if w.Met == MetNothing && w.Status.Ended() {
		w.Met = MetExit
	}
	return w, nil
}

// Ask is called before an input, and given after it. From then on, a [Session.WaitFor]
// without an Offset ignores the output from before the input, such as the prompt that the
// input answers. Several inputs without a wait or a poll between them count as one.
func (s *Session) Ask(ctx context.Context) (given func()) {
	st, err := s.Log().Stat(ctx)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && !s.asking {
			s.asking, s.asked = true, max(s.asked, st.Size)
		}
	}
}

// waitOutput waits for output, its end, or the end of the session.
func (s *Session) waitOutput(ctx context.Context, o WaitOptions, w *Waited) error {
	if !o.Output && o.Pattern == nil || s.neverBegan() {
		return nil
	}
	m := matcher{pattern: o.Pattern}
	buf := make([]byte, 4<<10)
	for off := w.Offset; ; {
		c, err := s.Log().Read(ctx, off, buf)
		if errors.Is(err, io.EOF) {
			w.Next = off
			return nil
		}
		if err != nil {
			return waitError(ctx, err)
		}
		off = c.Next()
		if o.Output && len(c.Data) > 0 {
			w.Met, w.Offset, w.Next = MetOutput, c.Offset, off
			return nil
		}
		if at, end, ok := m.add(c); ok {
			w.Met, w.Match, w.Offset, w.Next = MetPattern, string(m.text[at-m.off:end-m.off]), at, end
			return nil
		}
	}
}

// maxMatch is how much older output a pattern is matched against, in bytes.
const maxMatch = 64 << 10

// A matcher looks for a pattern in output that arrives in chunks.
type matcher struct {
	pattern *regexp.Regexp
	text    []byte
	off     int64 // of text
}

// add reads a chunk, and returns where the first match is.
func (m *matcher) add(c corral.Chunk) (at, end int64, ok bool) {
	if m.pattern == nil {
		return 0, 0, false
	}
	if c.Offset != m.off+int64(len(m.text)) { // the first, or after a gap
		m.text, m.off = m.text[:0], c.Offset
	}
	m.text = append(m.text, c.Data...)
	if loc := m.pattern.FindIndex(m.text); loc != nil {
		return m.off + int64(loc[0]), m.off + int64(loc[1]), true
	}
	if over := len(m.text) - maxMatch; over > maxMatch {
		m.text = append(m.text[:0], m.text[over:]...)
		m.off += int64(over)
	}
	return 0, 0, false
}
