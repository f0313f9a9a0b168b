package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corral-exec/corral/api"
)

// A Sandbox is what there is of a sandbox of the gateway.
type Sandbox = api.Sandbox

// SandboxAddress is how a port of a sandbox is reached by a host name.
type SandboxAddress = api.SandboxAddress

// SandboxStats is what a sandbox uses at one moment.
type SandboxStats = api.SandboxStats

// A SandboxLog is what became of a sandbox's containers, and of the setup
// commands in them.
type SandboxLog = api.SandboxLog

// Recreated is a sandbox with a new container.
type Recreated = api.Recreated

func sandboxCall(method, name string, of ...string) call {
	return call{method: method, path: append([]string{"sandboxes", name}, of...), changes: method != http.MethodGet}
}

// Sandboxes lists the sandboxes of all agents, by name.
func (c *Client) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	list, err := ask[api.Sandboxes](ctx, c, get("sandboxes"), nil)
	return list.Sandboxes, err
}

// Sandbox describes one, whosever it is. ErrNotFound if there is none.
func (c *Client) Sandbox(ctx context.Context, name string) (Sandbox, error) {
	return ask[Sandbox](ctx, c, sandboxCall(http.MethodGet, name), nil)
}

// RemoveSandbox removes one: its containers with what runs in them, and its
// private workspace. If the connection is cut it is ErrLost: repeated, it could remove one
// of that name that was made since.
func (c *Client) RemoveSandbox(ctx context.Context, name string) error {
	req := sandboxCall(http.MethodDelete, name)
	req.once = true
	return c.json(ctx, req, nil, nil)
}

// RecreateSandbox gives one a new container, which may take as long as its setup
// command. Commands that run go on where they are. If the connection is cut it is
// ErrLost: there may be a new container.
func (c *Client) RecreateSandbox(ctx context.Context, name string) (Recreated, error) {
	req := sandboxCall(http.MethodPost, name, "recreate")
	req.once = true
	return ask[Recreated](ctx, c, req, nil)
}

// SandboxAddress is by which host name a port of a sandbox is reached. ErrNotFound if the
// gateway has no domain for ports.
func (c *Client) SandboxAddress(ctx context.Context, name string, port int) (SandboxAddress, error) {
	req := sandboxCall(http.MethodGet, name, "address")
	req.query = url.Values{"port": {strconv.Itoa(port)}}
	return ask[SandboxAddress](ctx, c, req, nil)
}

// PauseSandbox freezes what runs in one, until it is resumed: by ResumeSandbox or by the
// next command for it. ErrNotFound if no container of it runs. If the connection is cut it
// is ErrLost: repeated, it could freeze one that was resumed since.
func (c *Client) PauseSandbox(ctx context.Context, name string) error {
	req := sandboxCall(http.MethodPost, name, "pause")
	req.once = true
	return c.json(ctx, req, nil, nil)
}

// ResumeSandbox has what runs in one go on.
func (c *Client) ResumeSandbox(ctx context.Context, name string) error {
	return c.json(ctx, sandboxCall(http.MethodPost, name, "resume"), nil, nil)
}

// SandboxStats is what a sandbox's container uses now. errors.ErrUnsupported if
// its engine does not tell.
func (c *Client) SandboxStats(ctx context.Context, name string) (SandboxStats, error) {
	return ask[SandboxStats](ctx, c, sandboxCall(http.MethodGet, name, "stats"), nil)
}

// SandboxLog is what became of the container that a sandbox had last, and with
// all, of those before it.
func (c *Client) SandboxLog(ctx context.Context, name string, all bool) (SandboxLog, error) {
	req := sandboxCall(http.MethodGet, name, "log")
	if all {
		req.query = url.Values{"all": {"true"}}
	}
	return ask[SandboxLog](ctx, c, req, nil)
}

// PruneSandboxes removes what is old of sandboxes, as the configuration says, and returns
// the names of the containers.
func (c *Client) PruneSandboxes(ctx context.Context) ([]string, error) {
	got, err := ask[api.Pruned](ctx, c, call{method: http.MethodPost, path: []string{"sandboxes", "prune"}, changes: true}, nil)
	return got.Removed, err
}
