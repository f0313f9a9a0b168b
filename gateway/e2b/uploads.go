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
	maxUploads = 4 << 30 // bytes of all, with what is being sent
	maxSending = 2 << 30 // bytes of those that are being sent for an agent
	uploadStep = 1 << 20 // bytes for which room is made at a time
	linkLimit  = time.Hour
)

var filesHash = lazy.Regexp(`^[0-9a-f]{64}$`)

// uploads are archives that clients sent to be copied into templates, by the hash that the
// client has for them. The oldest give way to new ones.
type uploads struct {
	dir     string
	mu      sync.Mutex       // held while files come and go
	kept    int64            // bytes of archives, or more: room counts them
	sending map[string]int64 // bytes that have room of what is being sent, by agent
}

// openUploads removes what was not sent as a whole.
func openUploads(dir string) (*uploads, error) {
	left, err := filepath.Glob(filepath.Join(dir, "*.part"))
	for _, file := range left {
		err = errors.Join(err, os.Remove(file))
	}
	return &uploads{dir: dir, kept: maxUploads, sending: map[string]int64{}}, err
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

func (u *uploads) put(agent, hash string, from io.Reader) error {
	if err := os.MkdirAll(u.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(u.dir, "*.part")
	if err != nil {
		return err
	}
	n, taken, err := u.receive(agent, f, from)
	err = errors.Join(err, f.Close())
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sending[agent] -= taken; u.sending[agent] == 0 {
		delete(u.sending, agent)
	}
	if err == nil {
		err = os.Rename(f.Name(), u.file(agent, hash))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	u.kept += n
	return nil
}

// receive writes the n bytes of an archive, for which room was taken.
func (u *uploads) receive(agent string, to io.Writer, from io.Reader) (n, taken int64, err error) {
	for n <= maxUpload {
		if err := u.take(agent, uploadStep); err != nil {
			return n, taken, err
		}
		taken += uploadStep
		m, err := io.CopyN(to, from, uploadStep)
		n += m
		if err == io.EOF { // and no error that has one in it: such an archive was cut
			return n, taken, nil
		}
		if err != nil {
			return n, taken, err
		}
	}
	return n, taken, corral.Errorf(corral.ErrInvalid, "copy less at a time", "the archive has more than %d bytes", maxUpload)
}

// take makes room for n more bytes of what is being sent for an agent.
func (u *uploads) take(agent string, n int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := n
	for _, m := range u.sending {
		all += m
	}
	if u.sending[agent]+n > maxSending || all > maxUploads {
		return corral.Errorf(api.ErrTooMany, "send it again when others have been sent", "archives of %d MiB are being sent, of these %d MiB for the agent %s, and no more may be at a time", (all-n)>>20, u.sending[agent]>>20, agent)
	}
	if u.kept+all > maxUploads {
		if err := u.room(all); err != nil {
			return err
		}
	}
	u.sending[agent] += n
	return nil
}

// room removes the oldest archives until n bytes may be beside them. mu is held.
func (u *uploads) room(n int64) error {
	list, err := os.ReadDir(u.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	u.kept = 0
	for _, e := range list {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".tar") {
			files = append(files, info)
			u.kept += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if u.kept+n <= maxUploads {
			break
		}
		if err := os.Remove(filepath.Join(u.dir, info.Name())); err != nil {
			return err
		}
		u.kept -= info.Size()
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
