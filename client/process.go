package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

// A Process is a session of the gateway. See corral.Process; a session that another
// client removed answers ErrNotFound.
type Process struct {
	c    *Client
	info corral.Info
	log  log

	removed atomic.Bool // by this handle: the ID may be another's by now
}

func (p *Process) gone(kind error) error {
	return corral.Errorf(kind, "", "session %s was removed", p.info.ID)
}

func (c *Client) process(st session.Status) *Process {
	p := &Process{c: c, info: corral.Info{
		ID: st.ID, PID: st.PID, Host: st.Host, Node: st.Node, Sandboxed: st.Sandboxed,
		Dir: st.Dir, StartedAt: st.StartedAt, Notice: st.Notice, Warnings: st.Warnings, Enforced: st.Enforced,
	}}
	p.log.p = p
	return p
}

// Info says what was started, where and when.
func (p *Process) Info() corral.Info { return p.info }

// Log is the output. Read sequentially it comes in one stream.
func (p *Process) Log() corral.Log { return &p.log }

func (p *Process) call(method string, more ...string) call {
	return call{method: method, path: append([]string{"sessions", p.info.ID}, more...), header: p.life()}
}

// life tells the gateway which session is meant: the ID may be another's by now.
func (p *Process) life() map[string]string {
	if p.info.StartedAt.IsZero() {
		return nil
	}
	return map[string]string{api.HeaderStarted: p.info.StartedAt.UTC().Format(time.RFC3339Nano)}
}

// Status describes the session now.
func (p *Process) Status(ctx context.Context) (session.Status, error) {
	return ask[session.Status](ctx, p.c, p.call(http.MethodGet), nil)
}

// Wait blocks until the session has ended. See corral.Process.
func (p *Process) Wait(ctx context.Context) (corral.Exit, error) {
	if p.removed.Load() {
		return corral.Exit{}, p.gone(corral.ErrNotFound)
	}
	req := p.call(http.MethodGet, "wait")
	req.query = url.Values{"timeout": {waitStep.String()}}
	for w := p.c.patience(); ; {
		asked := time.Now()
		var st session.Status
		if err := p.c.json(ctx, req, nil, &st); err != nil {
			return corral.Exit{}, err
		}
		switch {
		case st.Exit != nil:
			return *st.Exit, nil
		case !st.Ended() && time.Since(asked) > lastPause:
			w = p.c.patience()
		case !st.Ended(): // a gateway that stops does not wait, either
			if err := w.rest(ctx); err != nil {
				return corral.Exit{}, err
			}
		case st.Reason == session.ReasonNotStarted:
			return corral.Exit{}, corral.Errorf(corral.ErrNotFound, "it is safe to begin it again", "session %s never began: %s", p.info.ID, st.Detail)
		default:
			return corral.Exit{}, corral.Errorf(corral.ErrLost, "", "it is not known how session %s ended: %s", p.info.ID, st.Detail)
		}
	}
}

// waitStep is how long one request waits.
const waitStep = api.MaxWait / 2

// Signal sends a signal to the whole tree.
func (p *Process) Signal(ctx context.Context, sig corral.Signal) error {
	if !sig.Valid() {
		return corral.Errorf(corral.ErrInvalid, "signals are numbered 1 to 64", "no signal has the number %d", int(sig))
	}
	if p.removed.Load() {
		return p.gone(corral.ErrEnded)
	}
	req := p.call(http.MethodPost, "signal")
	req.changes = true
	switch sig {
	case corral.SIGKILL, corral.SIGTERM, corral.SIGSTOP, corral.SIGCONT:
	default:
		req.once = true
	}
	return p.c.json(ctx, req, api.Signal{Signal: strconv.Itoa(int(sig))}, nil)
}

// Resize sets the size of the terminal.
func (p *Process) Resize(ctx context.Context, size corral.Size) error {
	if p.removed.Load() {
		return p.gone(corral.ErrEnded)
	}
	return p.c.json(ctx, p.call(http.MethodPost, "resize"), size, nil)
}

// Kill ends the session: SIGTERM, and SIGKILL after a grace. It returns when
// the session has ended.
func (p *Process) Kill(ctx context.Context) (session.Status, error) {
	var st session.Status
	if p.removed.Load() {
		return st, p.gone(corral.ErrNotFound)
	}
	repeated := false
	req := p.call(http.MethodPost, "kill")
	req.changes, req.repeated = true, &repeated
	err := p.c.json(ctx, req, nil, &st)
	if repeated && errors.Is(err, corral.ErrEnded) { // by a try whose answer was cut
		return p.Status(ctx)
	}
	return st, err
}

// Remove forgets an ended session, with its output.
func (p *Process) Remove(ctx context.Context) error { return p.remove(ctx, nil) }

// Discard kills the session if it runs, and forgets it.
func (p *Process) Discard(ctx context.Context) error {
	return p.remove(ctx, url.Values{"force": {"true"}})
}

func (p *Process) remove(ctx context.Context, query url.Values) error {
	if p.removed.Load() {
		return nil
	}
	req := p.call(http.MethodDelete)
	req.query, req.changes = query, true
	err := p.c.json(ctx, req, nil, nil)
	if errors.Is(err, corral.ErrNotFound) { // removed before, perhaps by a try whose answer was cut
		err = nil
	}
	if err == nil {
		p.removed.Store(true)
	}
	return err
}
