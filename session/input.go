package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session/keys"
)

// SendKeys types keys. It returns the number of bytes typed, and warnings about keys
// that could not be typed as asked.
func (s *Session) SendKeys(ctx context.Context, r keys.Request) (int, []string, error) {
	cursor := keys.CursorNormal
	if s.start.TTY {
		if err := s.followTerminal(ctx); err != nil {
			return 0, nil, err
		}
		s.typed.mu.Lock()
		// A mode that no program has set is as in a new terminal.
		if s.typed.modes.Cursor() == keys.CursorApplication {
			cursor = keys.CursorApplication
		}
		s.typed.mu.Unlock()
	}
	got, err := keys.Encode(r, keys.Options{Cursor: cursor})
	if err != nil {
		return 0, nil, err
	}
	if len(got.Data) == 0 {
		return 0, got.Warnings, corral.Errorf(corral.ErrInvalid, "give keys, hex or literal", "no key data provided")
	}
	n, err := s.Write(ctx, got.Data)
	return n, got.Warnings, err
}

// Submit presses Enter: CR on a terminal. A command that reads a pipe gets a line feed,
// which ends a line there.
func (s *Session) Submit(ctx context.Context) error {
	enter := keys.Submit
	if !s.start.TTY {
		enter = "\n"
	}
	_, err := s.Write(ctx, []byte(enter))
	return err
}

// Paste pastes text in one piece. On a terminal, bracketed asks for bracketed paste.
// The warnings say when a program will see the brackets because it did not ask for
// them.
func (s *Session) Paste(ctx context.Context, text string, bracketed bool) (int, []string, error) {
	if text == "" {
		return 0, nil, corral.Errorf(corral.ErrInvalid, "give text", "no paste text provided")
	}
	var warnings []string
	bracketed = bracketed && s.start.TTY
	if bracketed {
		if err := s.followTerminal(ctx); err != nil {
			return 0, nil, err
		}
		s.typed.mu.Lock()
		asked := s.typed.modes.BracketedPaste()
		s.typed.mu.Unlock()
		if !asked {
			warnings = append(warnings, "The program has not asked for bracketed paste, and may show the brackets; paste with bracketed=false if it does.")
		}
	}
	data, err := keys.Paste(text, keys.PasteOptions{Plain: !bracketed})
	if err != nil {
		return 0, nil, err
	}
	n, err := s.Write(ctx, data)
	return n, warnings, err
}

// typing is the known state of a session's terminal.
type typing struct {
	mu       sync.Mutex
	off      int64 // output up to here is in modes
	answerAt int64 // ignore queries that end before: an earlier life answered them
	modes    keys.Detector
	queries  keys.CursorQueries
	attached int // real terminals at the other end, which answer queries themselves
}

// AttachTerminal registers a real terminal that shows the session, until detach is
// called. That terminal then answers the program's queries. Otherwise the session does,
// since the program may wait for the answer.
func (s *Session) AttachTerminal() (detach func()) {
	add := func(n int) {
		s.typed.mu.Lock()
		defer s.typed.mu.Unlock()
		s.typed.attached += n
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

// watchTerminal follows the output of a terminal until stop is called, and
// answers queries.
func (s *Session) watchTerminal(p corral.Process) (stop func()) {
	if !s.start.TTY {
		return func() {}
	}
	ctx, cancel := context.WithCancel(s.m.life)
	if st, err := p.Log().Stat(ctx); err == nil {
		s.typed.mu.Lock()
		s.typed.answerAt = st.Size
		if time.Since(s.start.At) < time.Second { // just begun: no query was answered yet
			s.typed.answerAt = 0
		}
		s.typed.mu.Unlock()
	}
	var owned sync.WaitGroup
	owned.Go(func() {
		for ctx.Err() == nil {
			s.typed.mu.Lock()
			off := s.typed.off
			s.typed.mu.Unlock()
			err := s.awaitOutput(ctx, off)
			if err == nil {
				err = s.followTerminal(ctx)
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !pause(ctx, time.Second) { // the executor is away; watch handles that
				return
			}
		}
	})
	return func() { cancel(); owned.Wait() }
}

// followTerminal reads the output so far.
func (s *Session) followTerminal(ctx context.Context) error {
	st, err := s.Log().Stat(ctx)
	if err != nil {
		return err
	}
	answers := 0
	s.typed.mu.Lock()
	err = s.typed.follow(ctx, s.Log(), st.Size, &answers)
	s.typed.mu.Unlock()
	for range min(answers, maxAnswers) {
		if _, err := s.Write(ctx, []byte(keys.CursorReport)); err != nil {
			return err
		}
	}
	return err
}

// maxAnswers bounds the answers that one stretch of hostile output can cause.
const maxAnswers = 16

func (t *typing) follow(ctx context.Context, log corral.Log, end int64, answers *int) error {
	var buf [2 << 10]byte
	for t.off < end {
		c, err := log.Read(ctx, t.off, buf[:])
		if err != nil {
			return err
		}
		t.off = c.Next()
		_, _ = t.modes.Write(c.Data) // it never fails
		_, n := t.queries.Strip(c.Data)
		if t.attached == 0 && t.off >= t.answerAt {
			*answers += n
		}
	}
	return nil
}

// noteInput notes that the command was sent input.
func (s *Session) noteInput() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizeAt = time.Now()
}
