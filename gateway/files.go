package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/strictjson"
	"github.com/corral-exec/corral/sandbox/files"
)

func (s *Server) fileRoutes() []route {
	return []route{
		{pattern: "GET /v1/sandboxes/{name}/files", right: access.Read, host: corral.HostSandbox, handle: s.files(listFiles)},
		{pattern: "DELETE /v1/sandboxes/{name}/files", right: access.Run, host: corral.HostSandbox, handle: s.files(removeFile)},
		{pattern: "GET /v1/sandboxes/{name}/files/stat", right: access.Read, host: corral.HostSandbox, handle: s.files(statFile)},
		{pattern: "GET /v1/sandboxes/{name}/files/content", waits: true, right: access.Read, host: corral.HostSandbox, handle: s.files(readFile)},
		{pattern: "PUT /v1/sandboxes/{name}/files/content", waits: true, right: access.Run, host: corral.HostSandbox, handle: s.files(writeFile)},
		{pattern: "POST /v1/sandboxes/{name}/files/directory", right: access.Run, host: corral.HostSandbox, handle: s.files(makeDirectory)},
		{pattern: "GET /v1/sandboxes/{name}/files/archive", waits: true, right: access.Read, host: corral.HostSandbox, handle: s.files(s.download)},
		{pattern: "PUT /v1/sandboxes/{name}/files/archive", waits: true, right: access.Run, host: corral.HostSandbox, handle: s.files(upload)},
	}
}

// files is a handler of requests about the file that the parameter path names.
func (s *Server) files(h func(w http.ResponseWriter, r *http.Request, f files.FS, name string) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a, err := s.agent(r)
		if err != nil {
			return err
		}
		if s.cfg.Files == nil {
			return errNoSandboxes
		}
		name := r.URL.Query().Get("path")
		if name == "" {
			return corral.Errorf(corral.ErrInvalid, "add ?path=, absolute or relative to the workspace", "the request names no file")
		}
		ctx, cancel := s.whileServing(r.Context())
		defer cancel()
		f, err := s.cfg.Files(ctx, a.Name(), r.PathValue("name"))
		if err != nil {
			return err
		}
		err = h(w, r.WithContext(ctx), f, name)
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStopping) {
			err = cause
		}
		return err
	}
}

func listFiles(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	limit, err := queryInt(r, "limit", 0)
	if err != nil {
		return err
	}
	page, err := f.List(r.Context(), name, files.ListOptions{After: r.URL.Query().Get("after"), Limit: int(min(limit, files.MaxPage))})
	return answerJSON(w, page, err)
}

func removeFile(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	all, err := queryBool(r, "all")
	if err != nil {
		return err
	}
	return noContent(w, f.Remove(r.Context(), name, all))
}

func statFile(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	i, err := f.Stat(r.Context(), name)
	return answerJSON(w, i, err)
}

func readFile(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	var o files.ReadOptions
	var err error
	if o.Offset, err = queryInt(r, "offset", 0); err != nil {
		return err
	}
	if o.Limit, err = queryInt(r, "limit", 0); err != nil {
		return err
	}
	return f.Read(r.Context(), name, o, func(i files.Info) (io.Writer, error) {
		about, err := json.Marshal(i)
		if err != nil {
			return nil, err
		}
		w.Header().Set("Content-Type", api.TypeBytes)
		w.Header().Set(api.HeaderFile, string(about))
		w.WriteHeader(http.StatusOK)
		return w, nil
	})
}

func writeFile(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	var o files.WriteOptions
	err := queryMode(r, &o.Mode)
	if err == nil {
		o.Parents, err = queryBool(r, "parents")
	}
	if err == nil {
		o.New, err = queryBool(r, "new")
	}
	if text := r.Header.Get(api.HeaderAttributes); err == nil && text != "" {
		if err = strictjson.Decode([]byte(text), &o.Attributes); err != nil {
			err = corral.Errorf(corral.ErrInvalid, `write {"NAME":"VALUE"}`, "the header %s is malformed: %w", api.HeaderAttributes, err)
		}
	}
	if err != nil {
		return err
	}
	body := newSlowBody(w, r)
	i, err := f.Write(r.Context(), name, body, o)
	return answerJSON(w, i, body.done(err))
}

func makeDirectory(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	var o files.MkdirOptions
	err := queryMode(r, &o.Mode)
	if err == nil {
		o.Parents, err = queryBool(r, "parents")
	}
	if err == nil {
		err = f.Mkdir(r.Context(), name, o)
	}
	return noContent(w, err)
}

func queryMode(r *http.Request, m *files.Mode) error {
	text := r.URL.Query().Get("mode")
	if text == "" {
		return nil
	}
	return m.UnmarshalText([]byte(text))
}

// download says in a trailer what it sent, and why it broke off: the archive has
// no end then.
func (s *Server) download(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	limits, err := queryLimits(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", api.TypeTar)
	w.Header().Set("Trailer", api.HeaderTotals+", "+api.HeaderError)
	sent := begun{Writer: w}
	got, err := f.Download(r.Context(), name, &sent, limits)
	if err != nil && !sent.yes {
		w.Header().Del("Trailer")
		return err
	}
	var trailer any = got
	header := api.HeaderTotals
	if err != nil {
		s.log.Info("an archive broke off", "path", r.URL.Path, "error", err)
		_, body := api.Encode(err)
		trailer, header = body.Error, api.HeaderError
	}
	text, err := json.Marshal(trailer)
	if err != nil {
		return err
	}
	w.Header().Set(header, string(text))
	return nil
}

type begun struct {
	io.Writer
	yes bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.Writer.Write(p)
}

func upload(w http.ResponseWriter, r *http.Request, f files.FS, name string) error {
	if ct := r.Header.Get("Content-Encoding"); ct != "" && !strings.EqualFold(ct, "identity") {
		return corral.Errorf(corral.ErrInvalid, "send the archive as it is", "a body with the encoding %.40q is not read", ct)
	}
	limits, err := queryLimits(r)
	if err != nil {
		return err
	}
	body := newSlowBody(w, r)
	got, err := f.Upload(r.Context(), name, body, limits)
	return answerJSON(w, got, body.done(err))
}

// queryLimits are files.DefaultLimits, or less.
func queryLimits(r *http.Request) (l files.Limits, err error) {
	for _, p := range []struct {
		name string
		most int64
		set  func(int64)
	}{
		{"maxBytes", files.DefaultLimits.Bytes, func(n int64) { l.Bytes = n }},
		{"maxEntries", int64(files.DefaultLimits.Entries), func(n int64) { l.Entries = int(n) }},
		{"maxDepth", int64(files.DefaultLimits.Depth), func(n int64) { l.Depth = int(n) }},
	} {
		n, err := queryInt(r, p.name, 0)
		if err != nil {
			return l, err
		}
		p.set(min(n, p.most))
	}
	return l, nil
}

// A slowBody is a body that may take as long as it comes at all.
type slowBody struct {
	r  io.Reader
	rc *http.ResponseController
}

func newSlowBody(w http.ResponseWriter, r *http.Request) *slowBody {
	return &slowBody{r: r.Body, rc: http.NewResponseController(w)}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if err := b.rc.SetReadDeadline(time.Now().Add(StallLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = corral.Errorf(corral.ErrInvalid, "", "the body could not be read: %w", err)
	}
	return n, err
}

// A wholeBody is a slowBody for one who may have more to do after all of it was read.
type wholeBody struct {
	*slowBody
	io.Closer
}

func (b wholeBody) Read(p []byte) (int, error) {
	n, err := b.slowBody.Read(p)
	if err != nil {
		err = b.done(err)
	}
	return n, err
}

// done takes the deadline away, or its end would seem to be the connection's.
func (b *slowBody) done(err error) error {
	if derr := b.rc.SetReadDeadline(time.Time{}); err == nil && derr != nil && !errors.Is(derr, http.ErrNotSupported) {
		return derr
	}
	return err
}
