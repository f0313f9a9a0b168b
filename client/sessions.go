package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// Start begins a session in the background that sends no notification. See
// corral.Executor.
func (c *Client) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := c.Begin(ctx, cmd, false)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Begin is Start, with a choice: notify makes the end of the session an event.
func (c *Client) Begin(ctx context.Context, cmd corral.Command, notify bool) (*Process, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	if cmd.ID == "" {
		cmd.ID = corral.NewID() // so that it can be repeated
	}
	status, err := ask[session.Status](ctx, c, call{method: http.MethodPost, path: []string{"sessions"}, changes: true}, api.NewStart(cmd, notify))
	if err != nil {
		return nil, err
	}
	return c.process(status), nil
}

// Attach returns a session that was started earlier. See corral.Executor.
func (c *Client) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := c.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Session is Attach, by its own type.
func (c *Client) Session(ctx context.Context, id string) (*Process, error) {
	if corral.ValidateID(id) != nil {
		return nil, corral.Errorf(corral.ErrNotFound, "list the sessions there are", "no session found for %q", id)
	}
	status, err := ask[session.Status](ctx, c, call{method: http.MethodGet, path: []string{"sessions", id}, query: url.Values{"attach": {"true"}}}, nil)
	if err != nil {
		return nil, err
	}
	return c.process(status), nil
}

// Sessions lists the agent's sessions, or those of all agents, the newest
// first.
func (c *Client) Sessions(ctx context.Context, allAgents bool) ([]session.Status, error) {
	req := get("sessions")
	if allAgents {
		req.query = url.Values{"agent": {api.AllAgents}}
	}
	list, err := ask[api.Sessions[session.Status]](ctx, c, req, nil)
	return list.Sessions, err
}

// Ready reports whether the gateway takes commands: nil, or ErrUnavailable.
func (c *Client) Ready(ctx context.Context) error {
	return c.json(ctx, get("ready"), nil, nil)
}

// A Tool describes a tool to a model.
type Tool = api.Tool

// Tools describes the tools that the gateway has for a model ("" if that is not
// known).
func (c *Client) Tools(ctx context.Context, model string) ([]Tool, error) {
	list, err := ask[api.Tools](ctx, c, call{method: http.MethodGet, path: []string{"tools"}, header: ofModel(model)}, nil)
	return list.Tools, err
}

// Exec calls the tool exec. When ctx ends, a command in the foreground is
// killed. With a SessionID in the request the call is repeated if the connection
// is cut; without one that is ErrLost. An outcome is a result and no error.
func (c *Client) Exec(ctx context.Context, req tool.ExecRequest) (tool.ExecResult, error) {
	return ask[tool.ExecResult](ctx, c, call{method: http.MethodPost, path: []string{"exec"}, once: req.SessionID == "", changes: true}, req)
}

// Process calls the tool process. If it was cut, that is ErrLost for actions
// that change something, and for poll, which hands out output once; others are
// repeated.
func (c *Client) Process(ctx context.Context, req tool.ProcessRequest) (tool.ProcessResult, error) {
	changes := true
	switch req.Action {
	case tool.ActionList, tool.ActionLog, tool.ActionWait, tool.ActionAttach:
		changes = false
	}
	return ask[tool.ProcessResult](ctx, c, call{method: http.MethodPost, path: []string{"process"}, once: changes, changes: changes}, req)
}
