package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// maxAnswer bounds an answer that is held in memory.
const maxAnswer = 64 << 20

// A call is one request, which may be sent several times.
type call struct {
	method string
	path   []string // segments
	query  url.Values
	body   []byte // JSON, unless kind says otherwise
	kind   string
	// stream is the body if it is not held in memory. It can be sent once.
	stream io.Reader

	// once: sending it again might do something again.
	once bool
	// changes: it is worth telling apart whether it may have been done.
	changes bool
	// repeated is set when the gateway answers, if an earlier try may have been acted on.
	repeated *bool
	// refused is why it is not sent: nothing can be called as a name in its path.
	refused error
	// context of the request, if it is not that of the caller, who then has
	// other means to end it.
	context context.Context
	header  map[string]string
}

// do sends a call until it is answered, and has take read the answer. An error
// of take that is a cut counts as no answer. An answer of 300 or more is an
// error and not given to take.
func (c *Client) do(ctx context.Context, req call, take func(*http.Response) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := c.patience()
	sent := false // and not answered
	for {
		err := c.try(ctx, req, take)
		no, ok := errors.AsType[*noAnswer](err)
		if !ok {
			if req.repeated != nil {
				*req.repeated = sent
			}
			return err
		}
		sent = sent || no.sent
		lost := sent && req.changes
		switch {
		case ctx.Err() != nil && !lost:
			return ctx.Err()
		case ctx.Err() != nil:
			return c.lost(req, ctx.Err())
		case no.sent && req.once, lost && c.life.Err() != nil:
			return c.lost(req, no.cause)
		}
		if !no.away && !c.reached.Load() || c.life.Err() != nil || w.wait(ctx) != nil {
			switch {
			case ctx.Err() != nil && !lost:
				return ctx.Err()
			case lost:
				return c.lost(req, no.cause)
			case no.away:
				return no.cause // what the gateway itself said
			}
			return c.unreachable(no.cause)
		}
	}
}

// noAnswer is why a try came to nothing.
type noAnswer struct {
	cause error
	sent  bool // the gateway may have acted on it
	away  bool // the gateway said that it is stopping, and did not act on it
}

func (e *noAnswer) Error() string { return e.cause.Error() }
func (e *noAnswer) Unwrap() error { return e.cause }

func (c *Client) try(ctx context.Context, req call, take func(*http.Response) error) error {
	if req.context != nil {
		ctx = req.context
	}
	var connected atomic.Bool
	r, err := c.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// Asked for again, since nothing of a change could be sent on the first, which was kept.
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), req)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok { // it says "Post http://localhost/…", which is nowhere
			err = e.Err
		}
		if errors.Is(err, corral.ErrDenied) { // by us: it is another certificate
			return err
		}
		if hint := pointless(err); hint != "" && ctx.Err() == nil {
			return corral.Errorf(corral.ErrUnavailable, hint, "there is no gateway at %s: %w", c.where, err)
		}
		dial, ok := errors.AsType[*net.OpError](err)
		if !(ok && dial.Op == "dial") && ctx.Err() == nil { // a server was there
			c.reached.Store(true)
		}
		return &noAnswer{cause: bare(err), sent: connected.Load()}
	}
	defer func() { resp.Body.Close() }() // as take leaves it
	c.reached.Store(true)
	switch {
	case resp.StatusCode < 300:
		return take(resp)
	case resp.StatusCode < 400: // what is followed may become another call: a GET
		return corral.Errorf(corral.ErrUnavailable, "use the address of the gateway itself", "what is at %s is no gateway: it answers %d, and sends to %.200q",
			c.where, resp.StatusCode, resp.Header.Get("Location"))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, api.MaxBody))
	if err != nil {
		return &noAnswer{cause: bare(err), sent: true}
	}
	err = api.Decode(resp.StatusCode, body)
	if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
		return &noAnswer{cause: &answered{err, body}, away: true}
	}
	return &answered{err, body}
}

// bare is an error of a connection without the names of its sockets: the
// gateway's is said already, and ours has none that anybody knows.
func bare(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// pointless is what to do about an error that does not go away by waiting: the server
// there is no gateway, or not one for this kind of connection. Empty: it may go away.
func pointless(err error) string {
	unverified, other := (*tls.CertificateVerificationError)(nil), tls.RecordHeaderError{}
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return "use http://: the gateway speaks no TLS by itself"
	case errors.As(err, &unverified):
		return "use the name that its certificate is for, and trust its signer"
	case errors.As(err, &other), strings.Contains(err.Error(), "malformed HTTP"): // which has no type
		return "check the gateway's address: what listens there does not speak HTTP"
	case errors.Is(err, fs.ErrPermission):
		return "call it as the user who started it"
	}
	return ""
}

// answered is an error that came from the gateway, with the answer it was in.
type answered struct {
	error
	body []byte
}

func (e *answered) Unwrap() error { return e.error }

func (c *Client) request(ctx context.Context, req call) (*http.Request, error) {
	if req.refused != nil {
		return nil, req.refused
	}
	u := c.base.JoinPath("v1")
	if len(req.path) > 0 {
		escaped := make([]string, len(req.path))
		for i, p := range req.path {
			if p == "" || p == "." || p == ".." { // it would be another path
				return nil, corral.Errorf(corral.ErrNotFound, "give its name", "nothing is called %q", p)
			}
			escaped[i] = url.PathEscape(p)
		}
		u = u.JoinPath(escaped...)
	}
	u.RawQuery = req.query.Encode()
	var body io.Reader
	if req.body != nil {
		body = bytes.NewReader(req.body)
	} else if req.stream != nil {
		body = io.NopCloser(req.stream)
	}
	r, err := http.NewRequestWithContext(ctx, req.method, u.String(), body)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "", "cannot make a request: %w", err)
	}
	c.identify(r.Header)
	if body != nil {
		r.Header.Set("Content-Type", req.kind)
		if req.kind == "" {
			r.Header.Set("Content-Type", api.TypeJSON)
		}
	}
	for k, v := range req.header {
		if strings.ContainsFunc(v, noHeader) {
			return nil, corral.Errorf(corral.ErrInvalid, "leave them out", "what is sent as %s has control characters in it", k)
		}
		r.Header.Set(k, v)
	}
	return r, nil
}

// noHeader reports whether a character cannot be sent in a header.
func noHeader(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (c *Client) identify(h http.Header) {
	h.Set(api.HeaderAgent, c.agent)
	if c.session != "" {
		h.Set(api.HeaderSession, c.session)
	}
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
}

func (c *Client) lost(req call, cause error) error {
	return corral.Errorf(corral.ErrLost, "look at the session before doing it again", "the connection to the gateway was cut, and it is not known what became of %s: %w",
		what(req), cause)
}

// what is a call, for people.
func what(req call) string {
	switch p := req.path; {
	case len(p) == 1 && p[0] == "sessions":
		return "the start of a session"
	case len(p) == 1:
		return "the call of " + p[0]
	case p[0] == "sandboxes" && len(p) > 2 && p[2] == "files":
		return "the change of " + req.query.Get("path") + " in the sandbox " + p[1]
	case p[0] == "sandboxes" && req.method == http.MethodDelete:
		return "the removal of sandbox " + p[1]
	case p[0] == "sandboxes" && len(p) == 2:
		return "the " + p[1] + " of sandboxes"
	case p[0] == "sandboxes" && p[2] != "recreate":
		return "the " + p[2] + " of sandbox " + p[1]
	case p[0] == "sandboxes":
		return "the new container of sandbox " + p[1]
	case p[0] == "nodes" && len(p) == 2 && p[1] == "tokens":
		return "the setup token"
	case p[0] == "nodes" && len(p) == 3 && p[1] == "tokens":
		return "the withdrawal of setup token " + p[2]
	case p[0] == "nodes" && len(p) == 3:
		return "the answer to " + p[2]
	case p[0] == "nodes" && req.method == http.MethodDelete:
		return "the removal of node " + p[1]
	case p[0] == "nodes":
		return "the change of node " + p[1]
	case p[0] == "approvals" && p[1] == "rules":
		return "the change of the rules"
	case p[0] == "approvals":
		return "the answer to approval " + p[1]
	case len(p) == 2 && p[0] == "tools":
		return "the call of " + p[1]
	case len(p) == 2 && req.method == http.MethodDelete:
		return "the removal of session " + p[1]
	case len(p) == 3 && p[2] == "stdin":
		return "the input for session " + p[1]
	case len(p) == 3 && p[2] == "signal":
		return "the signal for session " + p[1]
	case len(p) == 3 && p[2] == "kill":
		return "the end of session " + p[1]
	}
	name := req.method
	for _, p := range req.path {
		name += " " + p
	}
	return name
}

// json sends a call with v as its body, and decodes the answer into out. Either
// may be nil.
func (c *Client) json(ctx context.Context, req call, v, out any) error {
	if v != nil {
		data, err := json.Marshal(v)
		if err != nil {
			return corral.Errorf(corral.ErrInvalid, "", "cannot encode a request: %w", err)
		}
		req.body = data
	}
	return c.do(ctx, req, func(resp *http.Response) error { return decode(resp, out) })
}

// ask is json for an answer that is a T.
func ask[T any](ctx context.Context, c *Client, req call, v any) (answer T, err error) {
	err = c.json(ctx, req, v, &answer)
	return answer, err
}

// get is the call that reads what is at a path.
func get(path ...string) call { return call{method: http.MethodGet, path: path} }

func decode(resp *http.Response, out any) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &noAnswer{cause: bare(err), sent: true}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%w: an answer that is not understood: %w", api.ErrInternal, err)
	}
	return nil
}

// A patience waits between tries, longer and longer. It begins to run out when
// something has failed: an answer may have been long in coming, and be cut then.
type patience struct {
	retry time.Duration
	until time.Time // zero until something has failed
	pause time.Duration
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

func (c *Client) patience() *patience {
	return &patience{retry: c.retry, pause: firstPause}
}

var errTooLong = errors.New("the gateway was away for too long")

// wait returns an error if there is to be no further try.
func (w *patience) wait(ctx context.Context) error {
	if w.until.IsZero() {
		w.until = time.Now().Add(w.retry)
	}
	if time.Now().Add(w.pause).After(w.until) {
		return errTooLong
	}
	return w.rest(ctx)
}

// rest waits, whether or not the patience has run out.
func (w *patience) rest(ctx context.Context) error {
	pause := w.pause/2 + rand.N(w.pause/2+1)
	w.pause = min(w.pause*3/2, lastPause)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
