package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/strictjson"
	"github.com/corral-exec/corral/session"
)

func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%w: cannot encode the answer: %w", api.ErrInternal, err)
	}
	w.Header().Set("Content-Type", api.TypeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	_, err = w.Write(append(data, '\n'))
	return err
}

// answerJSON answers with v, unless there is an error.
func answerJSON(w http.ResponseWriter, v any, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, v)
}

// noContent answers with no body, unless there is an error.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// having is a handler of a gateway that has what h is about; of any other, missing is the
// answer.
func having(has bool, missing error, h handler) handler {
	if has {
		return h
	}
	return func(http.ResponseWriter, *http.Request) error { return missing }
}

// readBody reads a body of JSON, bounded in size and time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	data, err := readBytes(w, r, api.MaxBody)
	if err == nil && !utf8.Valid(data) { // encoding/json would change it silently
		err = corral.Errorf(corral.ErrInvalid, "send UTF-8", "the body is not UTF-8")
	}
	return data, err
}

// readBytes reads a body of at most limit bytes.
func readBytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(StallLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, corral.Errorf(api.ErrTooLarge, "pass large data on standard input or in a file", "the body has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "", "the body could not be read: %w", err)
	}
	// Or the end of the deadline would seem to be the end of the connection.
	if err := rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return data, nil
}

// readJSON reads a body into v, which must know every field in it. No key is given
// twice.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := readBody(w, r)
	if err != nil {
		return err
	}
	if err := strictjson.Decode(data, v); err != nil {
		return corral.Errorf(corral.ErrInvalid, "see /openapi.json for what is understood", "the body is malformed: %w", err)
	}
	return nil
}

// withBody is a handler that is given the body of a request.
func withBody[T any](h func(w http.ResponseWriter, r *http.Request, body T) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body T
		if err := readJSON(w, r, &body); err != nil {
			return err
		}
		return h(w, r, body)
	}
}

// agent is whose sessions a request is about.
func (s *Server) agent(r *http.Request) (session.Agent, error) {
	name := cmp.Or(r.Header.Get(api.HeaderAgent), session.DefaultAgent)
	if err := session.ValidateAgent(name); err != nil {
		return session.Agent{}, err
	}
	if err := access.From(r.Context()).CheckAgent(name); err != nil {
		return session.Agent{}, err
	}
	return s.cfg.Sessions.Agent(name), nil
}

// session is the one that a request is about.
func (s *Server) session(r *http.Request) (*session.Session, error) {
	a, err := s.agent(r)
	if err != nil {
		return nil, err
	}
	found, err := a.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if text := r.Header.Get(api.HeaderStarted); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, corral.Errorf(corral.ErrInvalid, "use the session's startedAt", "the header %s is no time: %w", api.HeaderStarted, err)
		}
		if !found.Is(at) {
			return nil, corral.Errorf(corral.ErrNotFound, "", "session %s was removed, and another has its ID now", found.ID())
		}
	}
	return found, nil
}

// onSession is a handler that is given the session that a request is about.
func (s *Server) onSession(h func(w http.ResponseWriter, r *http.Request, found *session.Session) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.session(r)
		if err != nil {
			return err
		}
		return h(w, r, found)
	}
}

func queryBool(r *http.Request, name string) (bool, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return r.URL.Query().Has(name), nil // ?follow is ?follow=true
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, badQuery(name, v, "use true or false")
	}
	return b, nil
}

func queryInt(r *http.Request, name string, def int64) (int64, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return def, nil
	}
	n, ok := api.ParseOffset(v)
	if !ok {
		return 0, badQuery(name, v, "use a whole number from 0 to 2^62")
	}
	return n, nil
}

func queryDuration(r *http.Request, name string, def, most time.Duration) (time.Duration, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return def, nil
	}
	d, err := api.ParseDuration(v)
	if err != nil {
		return 0, err
	}
	if d < 0 || d > most {
		return 0, badQuery(name, v, fmt.Sprintf("use 0 to %v", most))
	}
	return d, nil
}

func badQuery(name, value, hint string) error {
	return corral.Errorf(corral.ErrInvalid, hint, "the parameter %s=%q is not understood", name, value)
}

// writePage answers an error to those who ask for pages.
func writePage(w http.ResponseWriter, status int, e api.ErrorBody) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	return errorPage.Execute(w, map[string]any{"Status": status, "Text": http.StatusText(status), "Error": e})
}

var errorPage = template.Must(template.New("error").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Status}} {{.Text}}</title>
<h1>{{.Status}} {{.Text}}</h1>
<p>{{.Error.Message}}</p>{{with .Error.Hint}}
<p>What to do: {{.}}</p>{{end}}
</html>
`))
