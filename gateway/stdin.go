package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/readahead"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/session"
)

// inputs are the writes to standard inputs that are under way.
type inputs struct {
	turns turn.Keyed[*session.Session]

	mu     sync.Mutex
	holds  map[*session.Session]hold
	writes map[string]context.CancelCauseFunc // by session and the name that the client gave the write
}

// enter waits for its turn to write to a session. It has one writer at a time, so
// that what is sent in one request with a known length is not mixed with anything
// else.
func (in *inputs) enter(ctx context.Context, s *session.Session) (leave func(), err error) {
	leave, err = in.turns.Take(ctx, s)
	if err != nil {
		return nil, context.Cause(ctx)
	}
	return leave, nil
}

// name has a cancellation of the write of that name call cancel.
func (in *inputs) name(key string, cancel context.CancelCauseFunc) (forget func(), err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.writes == nil {
		in.writes = map[string]context.CancelCauseFunc{}
	}
	if in.writes[key] != nil {
		return nil, corral.Errorf(corral.ErrConflict, "name each write differently", "a write of that name is under way")
	}
	in.writes[key] = cancel
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.writes, key)
	}, nil
}

// A hold is a person's on the input of a session, while they type. Programs that write
// to it name no writer, and are not kept from it.
type hold struct {
	writer, by string
	at         time.Time
}

// holdFor is how long a writer has the input who does not write.
const holdFor = time.Minute

// hold gives a writer the input of a session; ErrConflict if another has it, unless it is
// to be taken over.
func (in *inputs) hold(s *session.Session, writer, by string, take bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(in.holds, func(_ *session.Session, h hold) bool { return now.Sub(h.at) > holdFor })
	if h, ok := in.holds[s]; ok && h.writer != writer && !take {
		return corral.Errorf(corral.ErrConflict, "take the input over, or only look", "%s types in this session, at another place", h.by)
	}
	if in.holds == nil {
		in.holds = map[*session.Session]hold{}
	}
	in.holds[s] = hold{writer, by, now}
	return nil
}

var errCancelled = errors.New("the write was cancelled")

func (in *inputs) cancel(key string) bool {
	in.mu.Lock()
	cancel := in.writes[key]
	in.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
	return cancel != nil
}

func writeKey(s *session.Session, name string) string { return s.ID() + "/" + name }

// writeStdin hands a body to the command as it arrives, as fast as the command
// takes it. A body of a known length is one write, which no other is mixed
// with; one of unknown length (a pipe) is one write for each piece.
func (s *Server) writeStdin(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	eof, err := queryBool(r, "eof")
	if err != nil {
		return err
	}
	take, err := queryBool(r, "take")
	if err != nil {
		return err
	}
	if writer := r.URL.Query().Get("writer"); writer != "" {
		if err := corral.ValidateID(writer); err != nil {
			return err
		}
		if err := s.inputs.hold(found, writer, access.From(r.Context()).Name, take); err != nil {
			return err
		}
	}
	serving, ended := s.whileServing(r.Context())
	defer ended()
	ctx, cancel := context.WithCancelCause(serving)
	defer cancel(nil)
	if name := r.URL.Query().Get("write"); name != "" {
		if err := corral.ValidateID(name); err != nil {
			return err
		}
		forget, err := s.inputs.name(writeKey(found, name), cancel)
		if err != nil {
			return err
		}
		defer forget()
	}
	in := &input{session: found, inputs: &s.inputs, body: r.Body, rc: http.NewResponseController(w), whole: r.ContentLength >= 0, closing: eof}
	n, err := in.copy(ctx)
	s.metrics.stdinBytes.Add(float64(n))
	if err == nil && eof {
		err = found.CloseStdin(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	gone := r.Context().Err() != nil // drain may end it
	if e := in.drain(); err == nil {
		err = e
	}
	if err == nil {
		return writeJSON(w, http.StatusOK, api.Written{N: n})
	}
	if gone { // perhaps with the session's end
		return err
	}
	if errors.Is(err, errCancelled) {
		err = corral.Errorf(corral.ErrUnavailable, "", "%w", err)
	}
	status, body := api.Encode(err)
	if s.draining() {
		w.Header().Set("Retry-After", "1")
	}
	return writeJSON(w, status, api.Written{N: n, Error: &body.Error})
}

// input is one request's.
type input struct {
	session *session.Session
	inputs  *inputs
	body    io.Reader
	ahead   *readahead.Reader // of body
	rc      *http.ResponseController
	whole   bool // one write
	closing bool // afterwards
}

// copy returns how much the command's side has taken. What waits for its turn is not read
// yet: it would take memory.
func (in *input) copy(ctx context.Context) (total int64, err error) {
	if in.whole {
		leave, err := in.inputs.enter(ctx, in.session)
		if err != nil {
			return 0, err
		}
		defer leave()
	}
	if err := in.readUntil(time.Time{}); err != nil {
		return 0, err
	}
	in.open()
	if !in.whole { // its client may send nothing for long
		defer context.AfterFunc(ctx, func() { in.ahead.Stop() })()
	}
	for first := true; ; first = false {
		data, err := in.ahead.Next()
		if err == nil && len(data) == 0 { // stopped
			return total, context.Cause(ctx)
		}
		// A body without bytes tells whether there could be any.
		if len(data) > 0 || first && !in.closing && errors.Is(err, io.EOF) {
			n, werr := in.write(ctx, data)
			total += int64(n)
			if werr != nil {
				return total, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// open begins to read the body, if that has not begun.
func (in *input) open() {
	if in.ahead == nil {
		in.ahead = readahead.New(in.fill)
	}
}

// fill reads what has arrived.
func (in *input) fill(buf []byte) (int, error) {
	var n int
	var err error
	if in.whole { // else it may be a person who types
		err = in.readUntil(time.Now().Add(StallLimit))
	}
	if err == nil {
		n, err = in.body.Read(buf)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = corral.Errorf(corral.ErrInvalid, "", "the body could not be read: %w", err)
	}
	return n, err
}

func (in *input) write(ctx context.Context, p []byte) (int, error) {
	if !in.whole {
		leave, err := in.inputs.enter(ctx, in.session)
		if err != nil {
			return 0, err
		}
		defer leave()
	}
	return in.session.Write(ctx, p)
}

// drain reads what the client goes on to send although it is not wanted: many
// clients do not look at an answer before they have sent everything. It does not
// wait for a body without an end in sight.
func (in *input) drain() (err error) {
	in.open()
	for in.whole && err == nil {
		_, err = in.ahead.Next()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if in.ahead.Stop() {
		err = errors.Join(err, in.readUntil(time.Unix(1, 0))) // at once
	}
	in.ahead.Wait()
	return errors.Join(err, in.readUntil(time.Time{}))
}

// readUntil bounds the reads of the body, if the connection can.
func (in *input) readUntil(t time.Time) error {
	if err := in.rc.SetReadDeadline(t); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// cancelStdin ends a write under way; the write's own answer says how much was
// taken.
func (s *Server) cancelStdin(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	if name := r.PathValue("write"); !s.inputs.cancel(writeKey(found, name)) {
		return corral.Errorf(corral.ErrNotFound, "", "no write %s is under way", name)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
