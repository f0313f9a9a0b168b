package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/sandbox/files"
)

// Files are the files of the agent's sandbox of that name. Limits of archives
// can only be lower than the gateway's. What is sent and received as a stream is not repeated when
// the connection is cut: the error is corral.ErrUnavailable, or corral.ErrLost
// for a change that may have been made.
func (c *Client) Files(sandbox string) files.FS { return &sandboxFiles{c: c, name: sandbox} }

type sandboxFiles struct {
	c    *Client
	name string
}

func (f *sandboxFiles) call(method, path string, of ...string) call {
	return call{
		method: method, path: append([]string{"sandboxes", f.name, "files"}, of...), query: url.Values{"path": {path}},
		changes: method != http.MethodGet,
	}
}

func setIf(q url.Values, name string, yes bool) {
	if yes {
		q.Set(name, "true")
	}
}

func setMode(q url.Values, m files.Mode) {
	if m != 0 {
		q.Set("mode", m.String())
	}
}

func setLimits(q url.Values, l files.Limits) {
	for name, n := range map[string]int64{"maxBytes": l.Bytes, "maxEntries": int64(l.Entries), "maxDepth": int64(l.Depth)} {
		if n > 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
}

// A fileError is what package io/fs has a name for as well.
type fileError struct {
	error
	also error
}

func (e *fileError) Unwrap() []error { return []error{e.error, e.also} }

func named(err error) error {
	switch {
	case errors.Is(err, corral.ErrNotFound):
		return &fileError{err, fs.ErrNotExist}
	case errors.Is(err, corral.ErrConflict):
		return &fileError{err, fs.ErrExist}
	}
	return err
}

func (f *sandboxFiles) json(ctx context.Context, req call, out any) error {
	return named(f.c.json(ctx, req, nil, out))
}

func (f *sandboxFiles) Stat(ctx context.Context, name string) (files.Info, error) {
	var i files.Info
	err := f.json(ctx, f.call(http.MethodGet, name, "stat"), &i)
	return whole(i), err
}

// whole is i with all of its path.
func whole(i files.Info) files.Info {
	if i.PathBytes != nil {
		i.Path = string(i.PathBytes)
	}
	return i
}

func (f *sandboxFiles) List(ctx context.Context, dir string, o files.ListOptions) (files.Page, error) {
	req := f.call(http.MethodGet, dir)
	if o.After != "" {
		req.query.Set("after", o.After)
	}
	if o.Limit > 0 {
		req.query.Set("limit", strconv.Itoa(o.Limit))
	}
	var p files.Page
	err := f.json(ctx, req, &p)
	for i := range p.Entries {
		p.Entries[i] = whole(p.Entries[i])
	}
	return p, err
}

func (f *sandboxFiles) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	req := f.call(http.MethodPost, name, "directory")
	setMode(req.query, o.Mode)
	setIf(req.query, "parents", o.Parents)
	req.once = !o.Parents
	return f.json(ctx, req, nil)
}

func (f *sandboxFiles) Remove(ctx context.Context, name string, all bool) error {
	req := f.call(http.MethodDelete, name)
	setIf(req.query, "all", all)
	req.once = true
	return f.json(ctx, req, nil)
}

func (f *sandboxFiles) Read(ctx context.Context, name string, o files.ReadOptions, to func(files.Info) (io.Writer, error)) error {
	req := f.call(http.MethodGet, name, "content")
	req.query.Set("offset", strconv.FormatInt(o.Offset, 10))
	req.query.Set("limit", strconv.FormatInt(o.Limit, 10))
	return f.stream(ctx, req, nil, func(resp *http.Response) error {
		var i files.Info
		if err := json.Unmarshal([]byte(resp.Header.Get(api.HeaderFile)), &i); err != nil {
			return fmt.Errorf("%w: the gateway does not say what file it is: %w", api.ErrInternal, err)
		}
		w, err := to(whole(i))
		if err != nil {
			return err
		}
		return f.copy(w, resp.Body)
	})
}

func (f *sandboxFiles) Write(ctx context.Context, name string, r io.Reader, o files.WriteOptions) (files.Info, error) {
	req := f.call(http.MethodPut, name, "content")
	req.kind = api.TypeBytes
	setMode(req.query, o.Mode)
	setIf(req.query, "parents", o.Parents)
	setIf(req.query, "new", o.New)
	if len(o.Attributes) > 0 {
		if err := files.CheckAttributes(o.Attributes); err != nil { // JSON has no others
			return files.Info{}, err
		}
		text, err := json.Marshal(o.Attributes)
		if err != nil {
			return files.Info{}, err
		}
		req.header = map[string]string{api.HeaderAttributes: string(text)}
	}
	if o.Limit > 0 {
		r = files.Bounded(r, o.Limit)
	}
	var i files.Info
	err := f.stream(ctx, req, r, func(resp *http.Response) error { return decode(resp, &i) })
	return whole(i), err
}

func (f *sandboxFiles) Upload(ctx context.Context, dir string, r io.Reader, l files.Limits) (files.Totals, error) {
	req := f.call(http.MethodPut, dir, "archive")
	req.kind = api.TypeTar
	setLimits(req.query, l)
	var got files.Totals
	err := f.stream(ctx, req, r, func(resp *http.Response) error { return decode(resp, &got) })
	return got, err
}

func (f *sandboxFiles) Download(ctx context.Context, name string, w io.Writer, l files.Limits) (got files.Totals, err error) {
	req := f.call(http.MethodGet, name, "archive")
	setLimits(req.query, l)
	err = f.stream(ctx, req, nil, func(resp *http.Response) error {
		body := &kept{r: resp.Body}
		if got, err = files.Normalise(w, body, l); err == nil {
			_, err = io.Copy(io.Discard, body) // up to the trailer
		}
		if why := resp.Trailer.Get(api.HeaderError); why != "" {
			var e api.ErrorBody
			if json.Unmarshal([]byte(why), &e) == nil {
				return api.DecodeBody(http.StatusServiceUnavailable, e)
			}
		}
		if cut := body.err(); cut != nil {
			return &noAnswer{cause: bare(cut), sent: true}
		}
		if err == nil && json.Unmarshal([]byte(resp.Trailer.Get(api.HeaderTotals)), &got) != nil {
			err = &noAnswer{cause: io.ErrUnexpectedEOF, sent: true}
		}
		return err
	})
	return got, err
}

// copy copies a body. That the connection was cut is told from what w says.
func (f *sandboxFiles) copy(w io.Writer, body io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &noAnswer{cause: bare(err), sent: true}
		}
	}
}

// stream sends a call once, with r as its body.
func (f *sandboxFiles) stream(ctx context.Context, req call, r io.Reader, take func(*http.Response) error) error {
	// A request that is answered before its body was read ends with it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := &kept{r: r}
	if r != nil {
		req.stream = body
	}
	err := f.c.try(ctx, req, take)
	no, ok := errors.AsType[*noAnswer](err)
	if !ok {
		return named(err)
	}
	switch broken := body.err(); {
	case broken != nil:
		return broken
	case ctx.Err() != nil:
		return cmp.Or(context.Cause(ctx), ctx.Err())
	case no.sent && req.changes:
		return corral.Errorf(corral.ErrLost, "look at the file before doing it again", "the connection to the gateway was cut, and it is not known what became of %s: %w", req.query.Get("path"), no.cause)
	case no.sent:
		return corral.Errorf(corral.ErrUnavailable, "the gateway's log says why, if it is not the network; a limit of archives is one reason", "the connection to the gateway was cut while %s was read: %w", req.query.Get("path"), no.cause)
	case no.away:
		return no.cause
	}
	return f.c.unreachable(no.cause)
}

// kept is a body whose own error is kept: the transport, or who reads an archive, wraps
// it beyond recognition.
type kept struct {
	r io.Reader

	mu     sync.Mutex
	broken error
}

func (k *kept) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		k.mu.Lock()
		k.broken = err
		k.mu.Unlock()
	}
	return n, err
}

func (k *kept) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.broken
}
