package e2b

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

// queryCall is a call by HTTP, which has its user in the query.
func queryCall(r *http.Request) (call, error) {
	c, err := callOf(r.Context(), r.Header)
	if name := r.URL.Query().Get("username"); name != "" {
		c.user = name
	}
	return c, err
}

// download answers with a file of a sandbox.
func (s *Server) download(w http.ResponseWriter, r *http.Request) error {
	c, err := queryCall(r)
	if err != nil {
		return err
	}
	f, err := s.files(c)
	if err != nil {
		return err
	}
	return sendFile(c, w, r, f, c.resolve(r.URL.Query().Get("path")))
}

// sendFile answers with a file, or with the part of it that is asked for.
func sendFile(c context.Context, w http.ResponseWriter, r *http.Request, f files.FS, name string) (err error) {
	var o files.ReadOptions
	status := http.StatusOK
	if text := r.Header.Get("Range"); text != "" {
		i, err := statLed(c, f, name) // the size of a link is not that of what is read
		if err != nil {
			return err
		}
		var ok bool
		if o, ok, err = parseRange(text, i.Size); err != nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", i.Size))
			return err
		}
		if ok {
			status = http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", o.Offset, o.Offset+o.Limit-1, i.Size))
		}
	}
	zip := status == http.StatusOK && strings.TrimSpace(r.Header.Get("Accept-Encoding")) == "gzip" // else identity is as good
	var closer io.Closer
	err = f.Read(c, name, o, func(i files.Info) (io.Writer, error) {
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(name)}))
		h.Set("Accept-Ranges", "bytes")
		h.Set("Last-Modified", i.ModTime.UTC().Format(http.TimeFormat))
		if zip {
			h.Set("Content-Encoding", "gzip")
			h.Set("Vary", "Accept-Encoding")
			w.WriteHeader(status)
			z := gzip.NewWriter(w)
			closer = z
			return z, nil
		}
		n := i.Size
		if o.Limit > 0 {
			n = o.Limit
		}
		if n > 0 { // else there can be something in it all the same, as in /proc
			h.Set("Content-Length", strconv.FormatInt(n, 10))
		}
		w.WriteHeader(status)
		return w, nil
	})
	if err == nil && closer != nil {
		err = closer.Close()
	}
	return err
}

// parseRange reads a header that asks for one part of a file. Others are not understood:
// then ok is false, and all of it is the answer.
func parseRange(text string, size int64) (o files.ReadOptions, ok bool, err error) {
	spec, is := strings.CutPrefix(text, "bytes=")
	from, to, two := strings.Cut(spec, "-")
	if !is || !two || strings.Contains(spec, ",") {
		return o, false, nil
	}
	beyond := &Error{Status: http.StatusRequestedRangeNotSatisfiable, Message: fmt.Sprintf("the file has %d bytes, and %.40q are none of them", size, text)}
	end := size - 1
	if from == "" { // the last so many
		n, err := strconv.ParseInt(to, 10, 64)
		if err != nil || n < 0 {
			return o, false, nil
		}
		o.Offset = max(0, size-n)
	} else {
		if o.Offset, err = strconv.ParseInt(from, 10, 64); err != nil || o.Offset < 0 {
			return files.ReadOptions{}, false, nil
		}
		if to != "" {
			n, err := strconv.ParseInt(to, 10, 64)
			if err != nil || n < o.Offset {
				return files.ReadOptions{}, false, nil
			}
			end = min(end, n)
		}
	}
	if o.Limit = end - o.Offset + 1; o.Limit <= 0 {
		return o, false, beyond
	}
	return o, true, nil
}

// written is a file as the one who wrote it is told.
type written struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`

	Metadata map[string]string `json:"metadata,omitempty"`
}

// Metadata of files are extended attributes with names of their own, which getfattr in the
// sandbox shows: user.e2b.NAME.
const (
	metadataHeader    = "X-Metadata-"
	metadataAttribute = "e2b."
)

// metadataOf is the metadata of a file that a client sends: of each name the first value.
func metadataOf(h http.Header) (map[string]string, error) {
	all := map[string]string{}
	for header, values := range h {
		name, ok := strings.CutPrefix(header, metadataHeader)
		if !ok {
			continue
		}
		for _, c := range []byte(name + values[0]) {
			if c < ' ' || c > '~' {
				return nil, corral.Errorf(corral.ErrInvalid, "use printable ASCII", "%s has another character", header)
			}
		}
		all[metadataAttribute+strings.ToLower(name)] = values[0]
	}
	return all, nil
}

// metadataIn is the metadata among the attributes of a file.
func metadataIn(attributes map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range attributes {
		if name, ok := strings.CutPrefix(name, metadataAttribute); ok {
			all[name] = value
		}
	}
	return all
}

// maxParts bounds the files of one request.
const maxParts = 10_000

// upload writes a file, or several in a form. Directories that lack are made.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	c, err := queryCall(r)
	if err != nil {
		return err
	}
	attributes, err := metadataOf(r.Header)
	if err != nil {
		return err
	}
	f, err := s.files(c)
	if err != nil {
		return err
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return corral.Errorf(corral.ErrInvalid, "", "the body is no gzip: %w", err)
		}
		body = z
	}
	to := r.URL.Query().Get("path")
	done := []written{}
	write := func(name string, from io.Reader) error {
		name = c.resolve(name)
		if i, err := f.Stat(c, name); err == nil && i.Type == files.TypeDir {
			return corral.Errorf(corral.ErrInvalid, "", "path is a directory: %s", name)
		}
		i, err := f.Write(c, name, from, files.WriteOptions{Parents: true, Volatile: true, Attributes: attributes})
		if err == nil {
			done = append(done, written{path.Base(i.Path), i.Path, "file", metadataIn(i.Attributes)})
		}
		return err
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "multipart/form-data":
		err = eachFile(body, params["boundary"], func(name string, from io.Reader) error {
			if to != "" {
				if len(done) > 0 {
					return corral.Errorf(corral.ErrInvalid, "leave the path out", "several files were sent for one path")
				}
				name = to
			}
			return write(name, from)
		})
	case to == "":
		err = corral.Errorf(corral.ErrInvalid, "add ?path=", "the path of the file is missing")
	default:
		err = write(to, body)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, done)
}

// A tail remembers the last bytes that were read.
type tail struct {
	io.Reader
	last []byte
}

// maxTail is more than the end of a form has.
const maxTail = 1 << 10

func (t *tail) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	t.last = append(t.last, b[max(0, n-maxTail):n]...)
	t.last = t.last[max(0, len(t.last)-maxTail):]
	return n, err
}

// eachFile calls do for each file of a form: the parts called file. The name is what the
// client gave it, with its directories, which package multipart leaves out. That also takes
// a form for whole that was cut between parts.
func eachFile(body io.Reader, boundary string, do func(name string, from io.Reader) error) error {
	all := &tail{Reader: body}
	form := multipart.NewReader(bufio.NewReaderSize(all, 256<<10), boundary) // which asks for 4 KiB at a time
	for range maxParts {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			if !bytes.Contains(all.last, []byte("--"+boundary+"--")) {
				return corral.Errorf(corral.ErrInvalid, "", "the form is malformed: it has no end")
			}
			return nil
		}
		if err != nil {
			return corral.Errorf(corral.ErrInvalid, "", "the form is malformed: %w", err)
		}
		_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return corral.Errorf(corral.ErrInvalid, "", "a part of the form is malformed: %w", err)
		}
		if params["name"] == "file" {
			if err := do(params["filename"], part); err != nil {
				return err
			}
		}
	}
	return corral.Errorf(corral.ErrInvalid, "send fewer", "the form has more than %d parts", maxParts)
}
