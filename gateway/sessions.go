package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/session"
)

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	list := []session.Status{}
	if r.URL.Query().Get("agent") == api.AllAgents {
		sees := access.From(r.Context()).Sees
		for _, name := range s.cfg.Sessions.Agents() {
			if sees(name) {
				list = append(list, s.cfg.Sessions.Agent(name).List(r.Context())...)
			}
		}
	} else {
		a, err := s.agent(r)
		if err != nil {
			return err
		}
		list = append(list, a.List(r.Context())...)
	}
	return writeJSON(w, http.StatusOK, api.Sessions[session.Status]{Sessions: list})
}

// startSession is corral.Executor.Start. The answer is the session; or, if the client
// prefers events, its output as well.
func (s *Server) startSession(w http.ResponseWriter, r *http.Request) error {
	a, err := s.agent(r)
	if err != nil {
		return err
	}
	var req api.Start
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if req.Background != nil && !*req.Background {
		return corral.Errorf(corral.ErrInvalid, "leave background out, and wait for the session; or use /v1/exec", "a session that is started here is always in the background")
	}
	cmd, err := req.Decode()
	if err != nil {
		return err
	}
	q, err := parseLogQuery(r, api.TypeJSON)
	if err != nil {
		return err
	}
	ctx := r.Context()
	if q.kind != api.TypeJSON { // before anything is started: there may be too many
		var done func()
		if ctx, done, err = s.follow(r); err != nil {
			return err
		}
		defer done()
	}
	status := http.StatusCreated
	if cmd.ID != "" {
		if _, err := a.Session(cmd.ID); err == nil {
			status = http.StatusOK
		}
	}
	// A start that its client gave up goes on: it would not be known what
	// became of it, and the client has the ID to ask.
	begun, err := a.Begin(context.WithoutCancel(r.Context()), session.Options{Command: cmd, Background: true, NotifyOnExit: req.NotifyOnExit})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+begun.ID())
	if q.kind != api.TypeJSON {
		return s.streamBegun(ctx, w, begun, q, status)
	}
	return writeJSON(w, status, begun.Status(r.Context()))
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	a, err := s.agent(r)
	if err != nil {
		return err
	}
	found, err := a.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	attach, err := queryBool(r, "attach")
	if err != nil {
		return err
	}
	if attach {
		ctx, cancel := s.whileServing(r.Context())
		defer cancel()
		if _, err := a.Attach(ctx, found.ID()); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, found.Status(r.Context()))
}

func (s *Server) removeSession(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	force, err := queryBool(r, "force")
	if err != nil {
		return err
	}
	if force {
		err = found.Discard(r.Context())
	} else {
		err = found.Remove(r.Context())
	}
	return noContent(w, err)
}

const defaultWait = time.Minute

// waitSession answers with the status at the end, or when the time is up: the
// two differ in the status itself.
func (s *Server) waitSession(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	limit, err := queryDuration(r, "timeout", defaultWait, api.MaxWait)
	if err != nil {
		return err
	}
	present, away := whilePresent(r)
	defer away()
	ctx, cancel := s.whileServing(present)
	defer cancel()
	ctx, expire := context.WithTimeout(ctx, limit)
	defer expire()
	_, err = found.Wait(ctx)
	switch {
	case present.Err() != nil:
		return context.Cause(present)
	case err == nil || ctx.Err() != nil || errors.Is(err, corral.ErrLost) || errors.Is(err, corral.ErrNotFound):
		// The status says all of it.
		return writeJSON(w, http.StatusOK, found.Status(r.Context()))
	}
	return err
}

func (s *Server) signalSession(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	var req api.Signal
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	sig, err := corral.ParseSignal(req.Signal)
	if err != nil {
		return err
	}
	return noContent(w, found.Signal(r.Context(), sig))
}

func (s *Server) resizeSession(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	var size corral.Size
	if err := readJSON(w, r, &size); err != nil {
		return err
	}
	if size.Rows == 0 || size.Cols == 0 {
		return corral.Errorf(corral.ErrInvalid, `send {"rows":24,"cols":80}`, "a terminal of %d rows and %d columns was asked for", size.Rows, size.Cols)
	}
	return noContent(w, found.Resize(r.Context(), size))
}

func (s *Server) killSession(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	status, err := found.Kill(r.Context())
	return answerJSON(w, status, err)
}

func (s *Server) statLog(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	stat, err := found.Log().Stat(r.Context())
	return answerJSON(w, stat, err)
}
