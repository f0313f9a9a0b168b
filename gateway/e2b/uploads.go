package e2b

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/lazy"
)

// Bounds of what clients send to be copied into templates.
const (
	maxUpload  = 1 << 30 // bytes of an archive
	maxUploads = 4 << 30 // bytes of all
	linkLimit  = time.Hour
)

var filesHash = lazy.Regexp(`^[0-9a-f]{64}$`)

// uploads are archives that clients sent to be copied into templates, by the hash that the
// client has for them. The oldest give way to new ones.
type uploads struct {
	dir string
	mu  sync.Mutex // held while files come and go
}

// openUploads removes what was not sent as a whole.
func openUploads(dir string) (*uploads, error) {
	left, err := filepath.Glob(filepath.Join(dir, "*.part"))
	for _, file := range left {
		err = errors.Join(err, os.Remove(file))
	}
	return &uploads{dir: dir}, err
}

// file is where an agent's archive is, if it is there. Another agent's is another file: a
// hash is only what a client says.
func (u *uploads) file(agent, hash string) string {
	sum := sha256.Sum256([]byte(agent + " " + hash))
	return filepath.Join(u.dir, hex.EncodeToString(sum[:])+".tar")
}

func (u *uploads) has(agent, hash string) bool {
	_, err := os.Stat(u.file(agent, hash))
	return err == nil
}

func (u *uploads) put(agent, hash string, from io.Reader) (err error) {
	if err := os.MkdirAll(u.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(u.dir, "*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	n, err := io.Copy(f, io.LimitReader(from, maxUpload+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if n > maxUpload {
		return corral.Errorf(corral.ErrInvalid, "copy less at a time", "the archive has more than %d bytes", maxUpload)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.room(n); err != nil {
		return err
	}
	return os.Rename(f.Name(), u.file(agent, hash))
}

// room removes the oldest archives until another one of n bytes may be there. mu is held.
func (u *uploads) room(n int64) error {
	list, err := os.ReadDir(u.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range list {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".tar") {
			files = append(files, info)
			n += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if n <= maxUploads {
			break
		}
		if err := os.Remove(filepath.Join(u.dir, info.Name())); err != nil {
			return err
		}
		n -= info.Size()
	}
	return nil
}

// linkUpload answers where a client sends an archive, which it does without its key.
func (s *Server) linkUpload(w http.ResponseWriter, r *http.Request) error {
	b, hash, err := s.buildOfFiles(r)
	if err != nil {
		return err
	}
	scheme := "http"
	if _, _, inside, _ := s.cfg.Domain.Match(r.Host); r.TLS != nil || inside && s.cfg.Domain.Secure() {
		scheme = "https"
	}
	link := url.URL{Scheme: scheme, Host: r.Host, Path: r.URL.Path}
	until := strconv.FormatInt(time.Now().Add(linkLimit).Unix(), 10)
	ref := access.From(r.Context()).Ref()
	link.RawQuery = url.Values{"key": {ref}, "expires": {until}, "signature": {s.signLink(r.URL.Path, ref, until)}}.Encode()
	return writeJSON(w, http.StatusCreated, map[string]any{"present": s.cfg.Store.uploads.has(b.agent, hash), "url": link.String()})
}

// signLink is valid as long as the gateway runs.
func (s *Server) signLink(path, key, until string) string {
	m := hmac.New(sha256.New, s.signing)
	fmt.Fprintf(m, "%s\n%s\n%s", path, key, until)
	return hex.EncodeToString(m.Sum(nil))
}

// uploader is by what right a client sends an archive: that of the key that got the link.
func (s *Server) uploader(r *http.Request) (*http.Request, *access.Grant, error) {
	q := r.URL.Query()
	if !hmac.Equal([]byte(q.Get("signature")), []byte(s.signLink(r.URL.Path, q.Get("key"), q.Get("expires")))) {
		return r, nil, corral.Errorf(api.ErrUnauthorized, "ask for a new one", "the link is not valid")
	}
	if n, err := strconv.ParseInt(q.Get("expires"), 10, 64); err != nil || time.Now().Unix() >= n {
		return r, nil, corral.Errorf(api.ErrUnauthorized, "ask for a new one", "the link has expired")
	}
	return r, s.cfg.Grant(q.Get("key")), nil
}

func (s *Server) uploadFiles(w http.ResponseWriter, r *http.Request) error {
	b, hash, err := s.buildOfFiles(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Store.uploads.put(b.agent, hash, r.Body); err != nil {
		return fmt.Errorf("cannot keep the archive: %w", err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// buildOfFiles is the build that the files of a request are for: the newest of the template.
func (s *Server) buildOfFiles(r *http.Request) (b *build, hash string, err error) {
	hash = r.PathValue("hash")
	if !filesHash().MatchString(hash) {
		return nil, "", corral.Errorf(corral.ErrInvalid, "", "%.80q is no SHA-256", hash)
	}
	b, err = s.builds.find(r.Context(), r.PathValue("id"), "")
	return b, hash, err
}
