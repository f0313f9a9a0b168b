package sshexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/corral-exec/corral"
)

// session is a running command; it is a streamexec.Stream.
type session struct {
	ssh.Channel
	h *host
	c *conn

	out      chan piece
	rest     piece         // of the piece that Read has taken
	pumps    atomic.Int32  // pumps that still read
	eof      chan struct{} // closed when both have ended:
	readErr  error         // an error in place of the end
	gone     chan struct{} // closed by Close
	goneOnce sync.Once

	report chan string   // the script's report, once; closed if there will be none
	noise  *preamble     // of standard output; read it only after report is closed
	over   chan struct{} // closed when the channel is closed
	ended  chan struct{} // closed when this is known:
	exit   corral.Exit
	err    error // why it is unknown how the command ended

	info corral.Info // of the process; set by start

	input struct {
		sync.Mutex
		writing bool
		over    bool // the input has ended
	}
}

// Write implements streamexec.Stream. The channel cannot end the input during a write:
// see CloseWrite.
func (s *session) Write(b []byte) (int, error) {
	s.input.Lock()
	if s.input.over {
		s.input.Unlock()
		return 0, io.EOF
	}
	s.input.writing = true
	s.input.Unlock()
	n, err := s.Channel.Write(b)
	s.input.Lock()
	s.input.writing = false
	over := s.input.over
	s.input.Unlock()
	if over {
		err = errors.Join(err, s.Channel.CloseWrite())
	}
	return n, err
}

// CloseWrite ends the input, after a write that is under way.
func (s *session) CloseWrite() error {
	s.input.Lock()
	now := !s.input.over && !s.input.writing
	s.input.over = true
	s.input.Unlock()
	if !now {
		return nil
	}
	return s.Channel.CloseWrite()
}

// piece is a piece of output. Closing done returns its buffer to the pump.
type piece struct {
	stream corral.Stream
	data   []byte
	done   chan<- struct{}
}

// newSession takes over a channel. marked: its standard error has marks too.
func (h *host) newSession(c *conn, ch ssh.Channel, requests <-chan *ssh.Request, m marks, marked bool) *session {
	s := &session{
		Channel: ch, h: h, c: c, noise: &preamble{marks: m},
		out: make(chan piece), eof: make(chan struct{}), gone: make(chan struct{}),
		report: make(chan string, 1), over: make(chan struct{}), ended: make(chan struct{}),
	}
	var before *preamble
	if marked {
		before = &preamble{marks: m}
	}
	s.pumps.Store(2)
	h.all.owned.Go(func() { s.listen(requests) })
	h.all.owned.Go(func() { s.pump(ch, corral.Stdout, s.noise, s.report) })
	h.all.owned.Go(func() { s.pump(ch.Stderr(), corral.Stderr, before, nil) })
	return s
}

// listen handles the server's messages about the session, until the channel closes.
func (s *session) listen(requests <-chan *ssh.Request) {
	known := false
	for r := range requests {
		if exit, err, ok := parseExit(r); ok && !known {
			known = true
			s.exit, s.err = exit, err
			close(s.ended)
		}
		if r.WantReply {
			_ = r.Reply(false, nil) // the connection may be gone
		}
	}
	if !known {
		s.err = errors.New("the connection was lost, or the server closed the session without a word about it")
		close(s.ended)
	}
	close(s.over)
	s.h.release(s.c)
}

// parseExit parses how a command ended.
func parseExit(r *ssh.Request) (exit corral.Exit, err error, ok bool) {
	switch r.Type {
	case "exit-status":
		var m struct{ Status uint32 }
		if err := ssh.Unmarshal(r.Payload, &m); err != nil || m.Status > 255 {
			return exit, fmt.Errorf("the server says so in a way that makes no sense: exit status %d", m.Status), true
		}
		return corral.Exit{Code: int(m.Status)}, nil, true
	case "exit-signal":
		var m struct {
			Signal     string
			CoreDumped bool
			Message    string
			Language   string
		}
		if err := ssh.Unmarshal(r.Payload, &m); err != nil {
			return exit, fmt.Errorf("the server says so in a way that makes no sense: %w", err), true
		}
		s, err := corral.ParseSignal("SIG" + m.Signal)
		if err != nil {
			// OpenSSH names the signals of RFC 4254 and no others.
			return exit, fmt.Errorf("a signal ended it, and the server does not say which"), true
		}
		return corral.Exit{Code: -1, Signal: s}, nil, true
	}
	return exit, nil, false
}

const bufferSize = 32 << 10

// pump passes on a stream's output, after its preamble.
func (s *session) pump(r io.Reader, stream corral.Stream, before *preamble, report chan<- string) {
	defer s.pumpEnds()
	begun := before == nil
	defer func() {
		if !begun && report != nil {
			close(report)
		}
	}()
	buf, done := make([]byte, bufferSize), make(chan struct{}, 1)
	for {
		n, err := r.Read(buf)
		data := buf[:n]
		if !begun && n > 0 {
			text, rest, found, perr := before.add(data)
			switch {
			case perr == nil:
			case report != nil:
				return
			default: // of that much noise only the end can be the beginning of the marks
				before.seen = before.seen[len(before.seen)-len(before.begin)-len(before.end):]
			}
			if begun = found; found {
				before.seen = nil
				if report != nil {
					report <- text
				}
			}
			data = rest
		}
		if len(data) > 0 {
			select {
			case s.out <- piece{stream, data, done}:
			case <-s.gone:
				return
			}
			select {
			case <-done:
			case <-s.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pumpEnds verifies the end of the output: a lost connection looks the same.
func (s *session) pumpEnds() {
	if s.pumps.Add(-1) > 0 {
		return
	}
	select {
	case <-s.gone:
	default:
		if err := s.c.alive(); err != nil {
			s.readErr = fmt.Errorf("the connection was lost: %v", err) // not io.EOF, since the end is unknown
		}
	}
	close(s.eof)
}

// Read implements streamexec.Stream.
func (s *session) Read(p []byte) (int, corral.Stream, error) {
	if len(s.rest.data) == 0 {
		select {
		case s.rest = <-s.out:
		case <-s.gone:
			return 0, 0, os.ErrClosed
		case <-s.eof:
			if s.readErr != nil {
				return 0, 0, s.readErr
			}
			return 0, 0, io.EOF
		}
	}
	n := copy(p, s.rest.data)
	if s.rest.data = s.rest.data[n:]; len(s.rest.data) == 0 {
		s.rest.done <- struct{}{}
	}
	return n, s.rest.stream, nil
}

// Resize implements streamexec.Stream.
func (s *session) Resize(_ context.Context, size corral.Size) error {
	_, err := s.SendRequest("window-change", false, ssh.Marshal(windowOf(size)))
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "", "cannot resize the terminal of %s: %w", s.info.ID, err)
	}
	return nil
}

// Result implements streamexec.Stream.
func (s *session) Result(ctx context.Context) (corral.Exit, error) {
	select {
	case <-s.ended:
		return s.exit, s.err
	case <-ctx.Done():
		return corral.Exit{}, ctx.Err()
	}
}

// Settle implements streamexec.Stream.
func (s *session) Settle(exit corral.Exit, err error, _ bool) (corral.Exit, error) { return exit, err }

// Expire implements streamexec.Stream.
func (s *session) Expire(ctx context.Context, grace time.Duration) (struck bool, err error) {
	if grace > 0 {
		found, err := s.h.kill(ctx, s.info, corral.SIGTERM, s.running())
		if err != nil {
			return false, err
		}
		struck = found > 0
		select {
		case <-s.ended:
		case <-time.After(grace):
		case <-ctx.Done():
			return struck, ctx.Err()
		}
	}
	found, err := s.h.kill(ctx, s.info, corral.SIGKILL, s.running())
	return struck || found > 0, err
}

func (s *session) running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// closeTime bounds a server's time to close a session.
const closeTime = 10 * time.Second

// Close implements streamexec.Stream.
func (s *session) Close() error {
	s.goneOnce.Do(func() {
		close(s.gone)
		_ = s.Channel.Close() // it may be closed already, or its connection
		time.AfterFunc(closeTime, func() {
			select {
			case <-s.over:
			default: // a send waits for the server
				s.c.close()
			}
		})
	})
	return nil
}
