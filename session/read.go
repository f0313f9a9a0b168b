package session

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/runner"
)

// MaxPoll bounds the wait of a Poll. DefaultPollBytes bounds each half of its output.
const (
	MaxPoll          = 2 * time.Minute
	DefaultPollBytes = 30_000
)

// pollSettle is the time that a poll waits for more output after the first, so that it
// does not return with the first word of an answer.
const pollSettle = 50 * time.Millisecond

// PollOptions configure a poll.
type PollOptions struct {
	Timeout time.Duration // how long to wait for output or the end; at most MaxPoll
	// Offset is where to read from. Nil: where the last such poll ended, even in an
	// earlier life of the program.
	Offset *int64
	Max    int // bytes of the head and of the tail of the output; 0: DefaultPollBytes
}

// A Poll is the output since the last one.
type Poll struct {
	Status Status
	runner.Excerpts
	Offset int64 // where the output begins
	// RetryIn is the time to wait before the next poll. It grows with the number of
	// polls in a row that found nothing. 0 if the session has ended.
	RetryIn time.Duration
}

// pollBackoff returns the time to wait after the n-th poll in a row, from 1, that found
// nothing.
func pollBackoff(n int) time.Duration {
	steps := [...]time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}
	return steps[min(max(n, 1), len(steps))-1]
}

// Poll waits for output or the end, and returns the output since the last poll.
// An end that a poll sees is no event.
func (s *Session) Poll(ctx context.Context, o PollOptions) (Poll, error) {
	if o.Timeout < 0 || o.Offset != nil && *o.Offset < 0 || o.Max < 0 {
		return Poll{}, corral.Errorf(corral.ErrInvalid, "0 is the default of each", "a time-out, an offset or a number of bytes is negative")
	}
	if err := s.attached(ctx); err != nil && !s.hasEnded() {
		return Poll{}, err
	}
	if o.Offset == nil {
		// Polls that share the new output take turns.
		select {
		case s.polling <- struct{}{}:
			defer func() { <-s.polling }()
		case <-ctx.Done():
			return Poll{}, context.Cause(ctx)
		}
	}
	over := s.expectEnd()
	p, err := s.poll(ctx, o)
	over(err != nil || !p.Status.Ended())
	return p, err
}

func (s *Session) poll(ctx context.Context, o PollOptions) (Poll, error) {
	s.mu.Lock()
	from := s.polled
	s.asking = s.asking && o.Offset != nil
	s.mu.Unlock()
	if o.Offset != nil {
		from = *o.Offset
	}
	if o.Timeout > 0 && !s.hasEnded() {
		if err := s.await(ctx, from, min(o.Timeout, MaxPoll)); err != nil {
			return Poll{}, err
		}
	}
	// Read the status before the output: if the session has ended, all output is there.
	p := Poll{Status: s.Status(ctx), Offset: from}
	if s.neverBegan() {
		return p, nil
	}
	var err error
	p.Excerpts, err = s.excerpts(ctx, from, cmp.Or(o.Max, DefaultPollBytes))
	if errors.Is(err, corral.ErrLost) && p.Status.State == Unknown {
		p.Next = from // its output is gone too; the status says so
	} else if err != nil {
		return Poll{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.Next > from || p.Status.Ended():
		s.empty = 0
	default:
		s.empty++
	}
	if !p.Status.Ended() {
		p.RetryIn = pollBackoff(s.empty)
	}
	if o.Offset == nil && p.Next > s.polled && !s.gone {
		if err := s.m.journal.add(line{Op: opPolled, ID: s.id, Offset: p.Next}); err != nil {
			return Poll{}, err
		}
		s.polled = p.Next
	}
	return p, nil
}

// await waits for output from an offset on, or the end, for at most d.
func (s *Session) await(ctx context.Context, from int64, d time.Duration) error {
	wait, cancel := s.m.waiting(ctx, d)
	defer cancel()
	err := s.awaitOutput(wait, from)
	if errors.Is(err, io.EOF) {
		err = s.awaitEnd(wait)
	} else if err == nil {
		settle, cancel := context.WithTimeoutCause(wait, pollSettle, errWaited)
		defer cancel()
		err = s.awaitEnd(settle)
	}
	if errors.Is(err, errWaited) {
		return nil
	}
	return err
}

var errWaited = errors.New("waited long enough")

// waiting is a context for a wait of at most d. Like the end of d, the end of the caller's
// key and a stop of the gateway end it.
func (m *Manager) waiting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, leave := m.staying(ctx)
	ctx, expire := context.WithTimeoutCause(ctx, d, errWaited)
	return ctx, func() { expire(); leave() }
}

// staying is ctx until the caller's key is no longer valid, or the gateway is about to stop:
// then it ends with errWaited.
func (m *Manager) staying(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	key := keyFrom(ctx).Ended
	go func() {
		select {
		case <-m.draining:
			end(errWaited)
		case <-key:
			end(errWaited)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(nil) }
}

// awaitOutput waits for output from an offset on. io.EOF: there will be none.
func (s *Session) awaitOutput(ctx context.Context, from int64) error {
	var b [1]byte
	_, err := s.Log().Read(ctx, from, b[:])
	return waitError(ctx, err)
}

func (s *Session) awaitEnd(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.m.life.Done():
		return errClosed
	}
}

// waitError returns the cause of ctx if it has ended, else err.
func waitError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *Session) neverBegan() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end != nil && s.end.Reason == ReasonNotStarted
}

// excerpts reads the output from an offset to its current end.
func (s *Session) excerpts(ctx context.Context, from int64, max int) (runner.Excerpts, error) {
	st, err := s.Log().Stat(ctx)
	if err != nil {
		return runner.Excerpts{}, err
	}
	return runner.ReadExcerpts(ctx, s.Log(), from, st.Size, max, s.start.Merged)
}

// Output returns the whole output so far: the first and the last max bytes of
// it, and of each of its streams.
func (s *Session) Output(ctx context.Context, max int) (runner.Excerpts, error) {
	if s.neverBegan() {
		return runner.Excerpts{}, nil
	}
	return s.excerpts(ctx, 0, max)
}

// Tail returns the last max bytes of the output as text, cut between characters.
func (s *Session) Tail(ctx context.Context, max int) (string, error) {
	if s.neverBegan() {
		return "", nil
	}
	st, err := s.Log().Stat(ctx)
	if err != nil || st.Size == 0 {
		return "", err
	}
	got, err := runner.ReadExcerpts(ctx, s.Log(), st.Size-min(st.Size, int64(max)), st.Size, max, true)
	if err != nil {
		return "", err
	}
	return trimStart(got.Output.Head + got.Output.Tail), nil
}

// trimStart removes the rest of a cut character from the start of text, and makes it
// valid UTF-8.
func trimStart(s string) string {
	for n := 0; n < 3 && s != "" && s[0]&0xc0 == 0x80; n++ {
		s = s[1:]
	}
	var d words.Decoder
	return d.Decode(corral.Stdout, []byte(s)) + d.Flush(corral.Stdout)
}
