package e2b

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/lazy"
)

// linkLimit is how long a client may take to begin to send an archive.
const linkLimit = time.Hour

var filesHash = lazy.Regexp(`^[0-9a-f]{64}$`)

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
	return writeJSON(w, http.StatusCreated, map[string]any{"present": s.cfg.Store.uploads.Has(b.agent, hash), "url": link.String()})
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
	if err := s.cfg.Store.uploads.Put(b.agent, hash, r.Body); err != nil {
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
	agent, err := s.agentFor(access.From(r.Context())) // as in requestBuild
	if err != nil {
		return nil, "", err
	}
	b, err = s.builds.find(func(a string) bool { return a == agent }, r.PathValue("id"), "")
	return b, hash, err
}
