package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

// holdLimit is how long the first bytes of a character wait for the others.
const holdLimit = 100 * time.Millisecond

// An eventStream sends a session's output as events: NDJSON, or server-sent events.
// One goroutine uses it.
type eventStream struct {
	w       http.ResponseWriter
	kind    string // media type
	session *session.Session
	metrics *metrics
	beat    time.Duration

	next int64        // where the rest of the output begins
	held corral.Chunk // the first bytes of a character whose others have not come
	last api.Header   // the last frame
	buf  []byte
}

func (s *Server) eventStream(w http.ResponseWriter, kind string, found *session.Session, from int64) *eventStream {
	return &eventStream{w: w, kind: kind, session: found, metrics: s.metrics, beat: s.heartbeat, next: from}
}

// streamBegun answers a call that started a session with its events.
func (s *Server) streamBegun(ctx context.Context, w http.ResponseWriter, begun *session.Session, q logQuery, status int) error {
	events := s.eventStream(w, q.kind, begun, q.from)
	if err := events.head(status); err != nil {
		return err
	}
	if err := events.started(ctx); err != nil {
		return err
	}
	return events.run(ctx, &reader{log: begun.Log(), pace: s.pace}, frameRange{from: q.from, until: -1})
}

// head sends the header, and with SSE where the stream begins: a client that is cut
// off before the first event comes back there.
func (e *eventStream) head(status int) error {
	e.w.Header().Set("Content-Type", e.kind)
	e.w.Header().Set("Cache-Control", "no-store")
	e.w.WriteHeader(status)
	if e.kind == api.TypeEvents {
		e.buf = api.AppendComment(e.buf, "output", e.next)
	}
	return e.flush()
}

// run sends the output that is in a range, and the end.
func (e *eventStream) run(ctx context.Context, log *reader, rng frameRange) error {
	log.idle = e
	if err := frames(ctx, log, rng, e.frame); err != nil {
		return err
	}
	if e.last.Stream == api.StreamEnd {
		switch err := e.awaitEnd(ctx); {
		case err == nil:
			return e.exit(ctx)
		case !errors.Is(context.Cause(ctx), errStopping):
			return err
		}
	}
	if err := e.add(api.StreamEvent{Type: api.StreamPaused, Offset: e.next, Next: e.next}); err != nil {
		return err
	}
	return e.flush()
}

// started tells which session it is.
func (e *eventStream) started(ctx context.Context) error {
	status, err := json.Marshal(e.session.Status(ctx))
	if err != nil {
		return err
	}
	if err := e.add(api.StreamEvent{Type: api.StreamStarted, Offset: e.next, Next: e.next, Session: status}); err != nil {
		return err
	}
	return e.flush()
}

// awaitEnd waits for the session, which ends a little after its log.
func (e *eventStream) awaitEnd(ctx context.Context) error {
	for {
		wait, cancel := context.WithTimeout(ctx, e.patience())
		err := e.session.Watch(wait)
		expired := wait.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !expired {
			return err
		}
		if err := e.idle(); err != nil {
			return err
		}
	}
}

func (e *eventStream) exit(ctx context.Context) error {
	st := e.session.Status(ctx)
	status, err := json.Marshal(st)
	if err != nil {
		return err
	}
	end := api.StreamEvent{Type: api.StreamExit, Offset: e.next, Next: e.next, Session: status, ExitStatus: &corral.ExitStatus{}}
	if st.Exit != nil {
		*end.ExitStatus = st.Exit.Status()
	}
	if err := e.add(end); err != nil {
		return err
	}
	return e.flush()
}

// patience implements idler.
func (e *eventStream) patience() time.Duration {
	if len(e.held.Data) > 0 {
		return holdLimit
	}
	return e.beat
}

// idle implements idler.
func (e *eventStream) idle() error {
	if len(e.held.Data) == 0 {
		if err := e.add(api.StreamEvent{Type: api.StreamPing, Offset: e.next, Next: e.next}); err != nil {
			return err
		}
	} else if err := e.release(); err != nil {
		return err
	}
	return e.flush()
}

// frame sends the output of a frame.
func (e *eventStream) frame(frame []byte) error {
	h, err := api.ParseHeader(frame)
	if err != nil {
		return err
	}
	c := corral.Chunk{Stream: h.Stream, Offset: h.Offset, Data: frame[api.HeaderLen:]}
	if len(e.held.Data) > 0 {
		if h.Last() || h.Stream != e.held.Stream || h.Offset != e.held.Next() {
			err = e.release()
		} else {
			c, err = e.complete(c)
		}
		if err != nil {
			return err
		}
		if len(c.Data) == 0 && !h.Last() {
			return e.flush()
		}
	}
	if h.Last() {
		e.last = h
		e.next = max(e.next, h.Offset)
		return e.flush()
	}
	if c.Offset > e.next {
		if err := e.add(api.StreamEvent{Type: api.StreamGap, Offset: e.next, Next: c.Offset}); err != nil {
			return err
		}
	}
	for len(c.Data) > 0 {
		n := words.WholeRunes(c.Data[:min(len(c.Data), api.MaxEventOutput)])
		if n == 0 {
			e.held = corral.Chunk{Stream: c.Stream, Offset: c.Offset, Data: append([]byte(nil), c.Data...)}
			break
		}
		if err := e.output(corral.Chunk{Stream: c.Stream, Offset: c.Offset, Data: c.Data[:n]}); err != nil {
			return err
		}
		c.Offset, c.Data = c.Offset+int64(n), c.Data[n:]
	}
	return e.flush()
}

// complete moves bytes from c to the character that is held, and sends it when it is
// complete, or cannot be.
func (e *eventStream) complete(c corral.Chunk) (corral.Chunk, error) {
	for len(c.Data) > 0 && !utf8.FullRune(e.held.Data) {
		more := append(e.held.Data, c.Data[0])
		if utf8.FullRune(more) && !utf8.Valid(more) {
			break // the byte begins something else
		}
		e.held.Data = more
		c.Offset, c.Data = c.Offset+1, c.Data[1:]
	}
	if len(c.Data) == 0 && !utf8.FullRune(e.held.Data) {
		return c, nil
	}
	return c, e.release()
}

// release sends what is held.
func (e *eventStream) release() error {
	held := e.held
	e.held = corral.Chunk{}
	return e.output(held)
}

func (e *eventStream) output(c corral.Chunk) error {
	return e.add(api.OutputEvent(c))
}

func (e *eventStream) add(event api.StreamEvent) (err error) {
	if e.kind == api.TypeEvents {
		e.buf, err = event.AppendSSE(e.buf)
	} else {
		e.buf, err = event.AppendLine(e.buf)
	}
	e.next = event.Next
	return err
}

// keptBuffer is how large a buffer a stream keeps while it waits.
const keptBuffer = 4 << 10

func (e *eventStream) flush() error {
	e.metrics.logBytes.Add(float64(len(e.buf)))
	if len(e.buf) > 0 {
		if _, err := e.w.Write(e.buf); err != nil {
			return err
		}
	}
	if e.buf = e.buf[:0]; cap(e.buf) > keptBuffer {
		e.buf = nil
	}
	return http.NewResponseController(e.w).Flush()
}
