package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/strictjson"
)

var errNoTools = corral.Errorf(errors.ErrUnsupported, "use /v1/sessions", "this gateway has no tools")

// tool passes a request to a tool. When the client goes away, the request's
// context ends, and a command in the foreground of the call with it.
func (s *Server) tool(name string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		result, err := s.toolResult(w, r, name)
		return answerJSON(w, result, err)
	}
}

// callTool calls any tool, and answers in every rendering.
func (s *Server) callTool(w http.ResponseWriter, r *http.Request) error {
	result, err := s.toolResult(w, r, r.PathValue("name"))
	if err != nil {
		return err
	}
	called := api.Called{Result: result}
	if t, ok := result.(interface {
		Text() string
		Failed() bool
	}); ok {
		called.Text, called.Failed = t.Text(), t.Failed()
	}
	return writeJSON(w, http.StatusOK, called)
}

func (s *Server) toolResult(w http.ResponseWriter, r *http.Request, name string) (any, error) {
	call, err := s.toolCall(w, r, name)
	if err != nil {
		return nil, err
	}
	ctx, away := whilePresent(r)
	defer away()
	return call.run(ctx)
}

// A toolCall is what a request asks of a tool.
type toolCall struct {
	tools Tools
	name  string
	args  map[string]json.RawMessage
	body  []byte // args, as they came
}

func (c toolCall) run(ctx context.Context) (any, error) { return c.tools.Call(ctx, c.name, c.body) }

func (s *Server) toolCall(w http.ResponseWriter, r *http.Request, name string) (toolCall, error) {
	call := toolCall{name: name}
	a, err := s.agent(r)
	if err != nil {
		return call, err
	}
	if s.cfg.Tools == nil {
		return call, errNoTools
	}
	if call.body, err = readBody(w, r); err != nil {
		return call, err
	}
	var other *json.UnmarshalTypeError
	switch err := json.Unmarshal(call.body, &call.args); {
	case errors.As(err, &other):
		return call, corral.Errorf(corral.ErrInvalid, "send a JSON object", "the arguments of %s are not an object but a JSON %s", name, other.Value)
	case err != nil:
		return call, corral.Errorf(corral.ErrInvalid, "send a JSON object", "the arguments of %s are not JSON: %w", name, err)
	case call.args == nil:
		return call, corral.Errorf(corral.ErrInvalid, "send a JSON object", "the arguments of %s are not an object but null", name)
	}
	if err := strictjson.Check(call.body); err != nil {
		return call, corral.Errorf(corral.ErrInvalid, "give each key once", "the arguments of %s can be read in two ways: %w", name, err)
	}
	call.tools = s.cfg.Tools(a.Name())
	return call, nil
}

// mcp hands a request on with its body read, so that it is bounded in time like
// every other. The arguments of a call may double when they are written in JSON.
func (s *Server) mcp(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.agent(r); err != nil { // it is looked at below again, by its name alone
		return err
	}
	body, err := readBytes(w, r, 2*api.MaxBody)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	ctx, away := whilePresent(r)
	defer away()
	if r.Method == http.MethodGet { // a stream of news; a call is not ended by its key's end
		ended := context.CancelFunc(nil)
		ctx, ended = access.From(ctx).Context(ctx)
		defer ended()
	}
	s.cfg.MCP.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

func (s *Server) listTools(w http.ResponseWriter, r *http.Request) error {
	a, err := s.agent(r)
	if err != nil {
		return err
	}
	tools := []api.Tool{}
	if s.cfg.Tools != nil {
		tools = append(tools, s.cfg.Tools(a.Name()).List(r.Context())...)
	}
	return writeJSON(w, http.StatusOK, api.Tools{Tools: tools})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) error {
	if s.draining() {
		return writeJSON(w, http.StatusServiceUnavailable, api.Health{Status: "draining"})
	}
	if s.cfg.Ready != nil {
		if err := s.cfg.Ready(); err != nil {
			s.log.Debug("the gateway is not ready", "error", err)
			return writeJSON(w, http.StatusServiceUnavailable, api.Health{Status: "starting"})
		}
	}
	return writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}
