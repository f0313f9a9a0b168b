package gateway

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
)

// wrap is all that is done for every request: an id, who may call, an answer
// for errors and panics, the log and the metrics.
func (s *Server) wrap(rt route) http.Handler {
	measured := s.metrics.route(rt)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		w := &response{ResponseWriter: rw, rc: http.NewResponseController(rw), two: r.ProtoMajor > 1}
		id := requestID(r)
		w.Header().Set(api.HeaderRequestID, id)

		w.awaitBody(r)
		err := s.serve(rt, w, r)
		w.awaitBody(r)
		if !w.hijacked { // the end is sent, too, perhaps long after the rest
			w.extend()
		}
		cut := err != nil && !s.answer(rt, w, r, err)
		took := time.Since(begin)
		measured.observe(w.status, took, w.bytes)
		s.metrics.key(w.key, w.status)
		s.access(r, rt, w, id, took, err)
		if cut {
			panic(http.ErrAbortHandler)
		}
	})
}

func (s *Server) serve(rt route, w *response, r *http.Request) (err error) {
	defer s.recovered(rt.pattern, &err)
	if rt.foreign != nil {
		return s.serveForeign(rt, w, r)
	}
	g, err := s.authorize(rt, r)
	if g != nil {
		w.key = g.Name
	}
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead && !rt.head {
		return corral.Errorf(corral.ErrInvalid, "use GET", "HEAD is not answered")
	}
	caller, err := config.ParseCaller(r.Header.Get(api.HeaderSender), r.Header.Get(api.HeaderModel))
	if err != nil {
		return err
	}
	if caller.Session, err = config.ParseSession(r.Header.Get(api.HeaderSession)); err != nil {
		return err
	}
	if only, ok := g.Only(); ok && r.Header.Get(api.HeaderAgent) == "" {
		r.Header.Set(api.HeaderAgent, only)
	}
	r.Header.Set(api.HeaderKey, g.Ref()) // whatever the client sent: it is for MCP
	ctx := access.WithGrant(config.WithCaller(r.Context(), caller), g)
	return rt.handle(w, r.WithContext(s.withSignIn(ctx, r)))
}

// serveForeign serves a client of E2B. Which host the request is addressed to, and which
// page it is from, makes no difference: a browser sends neither a key nor a token by itself.
func (s *Server) serveForeign(rt route, w *response, r *http.Request) error {
	r, g, err := rt.foreign.grant(r)
	if err != nil {
		return err
	}
	w.key = g.Name
	if rt.right != access.Public {
		if err := s.permit(rt, r, g); err != nil {
			return err
		}
	}
	return rt.handle(w, r.WithContext(access.WithGrant(r.Context(), g)))
}

// recovered is deferred where a panic must not end the gateway.
func (s *Server) recovered(route string, err *error) {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler { //nolint:errorlint // it is compared like that by net/http
			panic(p)
		}
		s.log.Error("panic while serving a request", "route", route, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%w: the request could not be served", api.ErrInternal)
	}
}

// answer sends err. If something has been sent already it cannot, and the
// connection has to be cut: the answer must not look complete.
func (s *Server) answer(rt route, w *response, r *http.Request, err error) bool {
	if w.status != 0 {
		return w.hijacked
	}
	if r.Context().Err() != nil || errors.Is(err, errGone) { // the client is gone, as far as can be told
		w.status = statusGone
		return false
	}
	status, body := api.Encode(err)
	if rt.foreign != nil {
		status, body.Error.Message = e2b.Status(err)
		body.Error.Hint = ""
	}
	if status == http.StatusServiceUnavailable && s.draining() {
		w.Header().Set("Retry-After", "1")
	}
	if many, ok := errors.AsType[*api.TooMany](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(many.After.Seconds())))))
	} else if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", challenge(r))
	}
	if rt.pages && strings.Contains(r.Header.Get("Accept"), "text/html") {
		err = writePage(w, status, body.Error)
	} else if rt.foreign != nil {
		err = e2b.WriteError(w, err)
	} else {
		err = writeJSON(w, status, body)
	}
	if err != nil {
		s.log.Debug("an error could not be answered", "path", r.URL.Path, "error", err)
	}
	return true
}

// statusGone stands in logs and metrics for an answer whose client was gone.
const statusGone = 499

// logged is an error as the log has it. What a policy says of a command quotes
// it, and there may be secrets in it.
func logged(err error) any {
	var quotes slog.LogValuer
	if errors.As(err, &quotes) {
		return quotes.LogValue()
	}
	return err.Error()
}

func (s *Server) access(r *http.Request, rt route, w *response, id string, took time.Duration, err error) {
	level := slog.LevelDebug
	switch {
	case w.status >= 500:
		level = slog.LevelWarn
	case r.Method != http.MethodGet || w.status >= 400:
		level = slog.LevelInfo
	}
	ctx := r.Context()
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("id", id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", w.status), slog.Int64("bytes", w.bytes), slog.Duration("took", took),
	}
	if w.key != "" {
		attrs = append(attrs, slog.String("key", w.key))
	}
	if agent := r.Header.Get(api.HeaderAgent); agent != "" {
		attrs = append(attrs, slog.String("agent", agent))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", logged(err)))
	}
	s.log.LogAttrs(ctx, level, "request", attrs...)
}

// requestID is the caller's, if it can stand in a log, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get(api.HeaderRequestID); corral.ValidateID(id) == nil {
		return id
	}
	return rand.Text()
}

// A response remembers what was answered, and cuts a client off that takes
// nothing.
type response struct {
	http.ResponseWriter
	rc       *http.ResponseController
	status   int
	bytes    int64
	hijacked bool
	two      bool   // it is by HTTP/2
	key      string // by whose it was served
	deadline time.Time
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack is for WebSockets.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.hijacked = true
	w.status = cmp.Or(w.status, http.StatusSwitchingProtocols)
	return w.rc.Hijack()
}

// Flush is for handlers that are handed in.
func (w *response) Flush() {
	w.extend()
	defer w.sent()
	_ = w.rc.Flush() // what fails is seen by the next Write
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.extend()
	defer w.sent()
	w.ResponseWriter.WriteHeader(status)
}

// piece is how much has to be taken within StallLimit.
const piece = 64 << 10

func (w *response) Write(p []byte) (n int, err error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	defer w.sent()
	for {
		w.extend()
		m, err := w.ResponseWriter.Write(p[n:min(len(p), n+piece)])
		n += m
		w.bytes += int64(m)
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// awaitBody bounds how long is waited for a body that nothing reads: net/http reads it
// before the answer, or after it, and half of StallLimit is left to write that. What takes
// longer to read one says so.
func (w *response) awaitBody(r *http.Request) {
	if r.ContentLength != 0 && !w.hijacked {
		_ = w.rc.SetReadDeadline(time.Now().Add(StallLimit / 2)) // recorders of tests cannot
	}
}

// sent takes the deadline away where it ends a stream also while nothing is sent: by HTTP/2.
func (w *response) sent() {
	if w.two && !w.deadline.IsZero() {
		w.deadline = time.Time{}
		_ = w.rc.SetWriteDeadline(w.deadline) // as it was set
	}
}

// extend puts the deadline off, at most once a second.
func (w *response) extend() {
	now := time.Now()
	if w.deadline.Sub(now) > StallLimit-time.Second {
		return
	}
	w.deadline = now.Add(StallLimit)
	// Without support there is no limit: that is so in tests with recorders.
	if err := w.rc.SetWriteDeadline(w.deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.deadline = time.Time{}
	}
}
