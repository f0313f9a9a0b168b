package e2b

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/sandbox/files"
)

// A Volume is a directory that outlasts sandboxes, and that several of an agent's may mount
// at the same time. Its files are in a directory beside its record.
type Volume struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Agent   string    `json:"agent"`
	Secret  string    `json:"secret"` // of its tokens
	Created time.Time `json:"created"`
}

// A Mount is a volume in a sandbox.
type Mount struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Path string `json:"path"`
}

const volumesDir = "volumes"

var (
	volumeID   = lazy.Regexp(`^v[a-z0-9]{19}$`)
	volumeName = lazy.Regexp(`^[A-Za-z0-9_-]{1,128}$`)
)

// Bounds of volumes.
const (
	maxVolumes = 100 // of an agent
	maxMounts  = 16  // of a sandbox
	maxPath    = 4096
)

// checkMounts checks what a client wants to mount. Package boundary says which paths are
// refused in a sandbox.
func checkMounts(list []Mount) error {
	if len(list) > maxMounts {
		return corral.Errorf(corral.ErrInvalid, "", "a sandbox cannot have more than %d volumes", maxMounts)
	}
	for i, m := range list {
		switch {
		case !volumeName().MatchString(m.Name):
			return noVolumeName(m.Name)
		case !path.IsAbs(m.Path) || len(m.Path) > maxPath || strings.Contains(m.Path, ":") || strings.ContainsFunc(m.Path, unicode.IsControl):
			return corral.Errorf(corral.ErrInvalid, "use an absolute path, such as /mnt/data", "the volume %s cannot be mounted at %.80q", m.Name, m.Path)
		}
		list[i].Path = path.Clean(m.Path)
	}
	return nil
}

func noVolumeName(name string) error {
	return corral.Errorf(corral.ErrInvalid, "use letters, digits, '_' and '-'", "%.40q cannot name a volume", name)
}

// readVolumes reads the records in a directory.
func readVolumes(dir string) (map[string]Volume, error) {
	all := map[string]Volume{}
	ids, err := idsIn(dir, ".json", volumeID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		var v Volume
		file := filepath.Join(dir, id+".json")
		if err := readRecord(file, &v); err != nil {
			return nil, damaged(file, "copy out what is in the directory of that name, and remove the file: the volume goes with it", err)
		}
		all[id] = v
	}
	return all, nil
}

// VolumeDir is the directory of this machine that has a volume's files.
func (s *Store) VolumeDir(id string) string { return filepath.Join(s.dir, volumesDir, id) }

// volumesOf are those that a caller sees, by name.
func (s *Store) volumesOf(sees func(agent string) bool) []Volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.volumes)), func(v Volume) bool { return !sees(v.Agent) })
	slices.SortFunc(list, func(a, b Volume) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return list
}

func (s *Store) volume(id string) (Volume, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.volumes[id]
	return v, ok
}

// addVolume keeps a new volume, unless its agent has one of the name, or as many as it may.
func (s *Store) addVolume(v Volume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, other := range s.volumes {
		if other.Agent != v.Agent {
			continue
		}
		if n++; other.Name == v.Name {
			return corral.Errorf(corral.ErrConflict, "use that, or another name", "Volume with name %q already exists", v.Name)
		}
	}
	if n >= maxVolumes {
		return corral.Errorf(api.ErrTooMany, "remove some", "the agent %s has %d volumes, and no more may be", v.Agent, n)
	}
	if err := writeRecord(s.VolumeDir(v.ID)+".json", v, atomicfile.Options{Durable: true}); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see the state directory", "cannot keep the volume %s: %w", v.Name, err)
	}
	s.volumes[v.ID] = v
	return nil
}

// removeVolume forgets a volume that no sandbox has. Its directory is still there.
func (s *Store) removeVolume(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boxes {
		if slices.ContainsFunc(b.Volumes, func(m Mount) bool { return m.ID == id }) {
			return corral.Errorf(corral.ErrConflict, "kill the sandbox first", "the volume %s is mounted in sandbox %s", s.volumes[id].Name, b.ID)
		}
	}
	if err := os.Remove(s.VolumeDir(id) + ".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(s.volumes, id)
	return nil
}

// findVolumes finds the volumes of a sandbox by their names. mu is held.
func (s *Store) findVolumes(b *Box) error {
	b.Volumes = slices.Clone(b.Volumes)
	for i, m := range b.Volumes {
		b.Volumes[i].ID = ""
		for _, v := range s.volumes {
			if v.Agent == b.Agent && v.Name == m.Name {
				b.Volumes[i].ID = v.ID
			}
		}
		if b.Volumes[i].ID == "" {
			return corral.Errorf(corral.ErrInvalid, "make it first", "Volume %q not found", m.Name)
		}
	}
	return nil
}

// sweepVolumes removes directories of volumes that were forgotten in a life that ended too
// early to remove them.
func (s *Server) sweepVolumes() {
	list, err := os.ReadDir(s.cfg.Store.VolumeDir(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot look for volumes of E2B's clients that were removed", "error", err)
	}
	for _, f := range list {
		id, _, _ := strings.Cut(f.Name(), ".")
		if _, ok := s.cfg.Store.volume(id); ok || !volumeID().MatchString(id) {
			continue
		}
		if err := s.cfg.Sandboxes.RemoveVolume(s.cfg.Store.VolumeDir(id)); err != nil {
			s.log.Warn("files of a volume that was removed are left", "volume", id, "error", err)
		}
	}
}

// volumeInfo is a volume as clients see it.
type volumeInfo struct {
	ID    string `json:"volumeID"`
	Name  string `json:"name"`
	Token string `json:"token,omitempty"`
}

// token is what the files of a volume are used by, for a key. It ends with the key.
func (v Volume) token(key string) string {
	m := hmac.New(sha256.New, []byte(v.Secret))
	m.Write([]byte(key))
	return hex.EncodeToString(m.Sum(nil)) + "." + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// holder is by what right the files of a volume are used: that of the key whose token it is.
func (s *Server) holder(r *http.Request) (*http.Request, *access.Grant, error) {
	token, _ := access.Bearer(r)
	_, encoded, _ := strings.Cut(token, ".")
	key, err := base64.RawURLEncoding.DecodeString(encoded)
	v, ok := s.cfg.Store.volume(r.PathValue("id"))
	if err != nil || !ok || !access.Same(token, v.token(string(key))) {
		return r, nil, corral.Errorf(api.ErrUnauthorized, "connect to the volume, which says what its token is", "the token is not that of the volume %.40q", r.PathValue("id"))
	}
	g := s.cfg.Grant(string(key))
	if !g.Sees(v.Agent) {
		return r, nil, corral.Errorf(api.ErrUnauthorized, "connect to the volume by a key that is valid", "the key by which the volume %s was used has ended", v.Name)
	}
	return r, g, nil
}

func (s *Server) createVolume(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name string `json:"name"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if !volumeName().MatchString(body.Name) {
		return noVolumeName(body.Name)
	}
	g := access.From(r.Context())
	agent, err := s.agentFor(g)
	if err != nil {
		return err
	}
	v := Volume{ID: idOf("v"), Name: body.Name, Agent: agent, Secret: newToken(), Created: time.Now().UTC()}
	if err := s.cfg.Store.addVolume(v); err != nil {
		return err
	}
	ctx, cancel := cleanly(r.Context())
	defer cancel()
	if _, err := s.cfg.Sandboxes.Volume(ctx, agent, s.cfg.Store.VolumeDir(v.ID)); err != nil {
		return errors.Join(fmt.Errorf("cannot make the volume %s: %w", v.Name, err), s.dropVolume(v.ID))
	}
	return writeJSON(w, http.StatusCreated, volumeInfo{v.ID, v.Name, v.token(g.Ref())})
}

// dropVolume removes a volume with its files. It is forgotten first: then no sandbox can
// mount it, and what is left of it is swept.
func (s *Server) dropVolume(id string) error {
	if err := s.cfg.Store.removeVolume(id); err != nil {
		return err
	}
	s.opened.Delete(id)
	return s.cfg.Sandboxes.RemoveVolume(s.cfg.Store.VolumeDir(id))
}

func (s *Server) findVolume(r *http.Request) (Volume, error) {
	id := r.PathValue("id")
	v, ok := s.cfg.Store.volume(id)
	if !ok || !access.From(r.Context()).Sees(v.Agent) {
		return v, corral.Errorf(corral.ErrNotFound, "", "Volume %.40q not found", id)
	}
	return v, nil
}

func (s *Server) getVolume(w http.ResponseWriter, r *http.Request) error {
	v, err := s.findVolume(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, volumeInfo{v.ID, v.Name, v.token(access.From(r.Context()).Ref())})
}

func (s *Server) listVolumes(w http.ResponseWriter, r *http.Request) error {
	list := []volumeInfo{}
	for _, v := range s.cfg.Store.volumesOf(access.From(r.Context()).Sees) {
		list = append(list, volumeInfo{ID: v.ID, Name: v.Name})
	}
	return writeJSON(w, http.StatusOK, list)
}

func (s *Server) deleteVolume(w http.ResponseWriter, r *http.Request) error {
	v, err := s.findVolume(r)
	if err != nil {
		return err
	}
	return noContent(w, s.dropVolume(v.ID))
}

// volumeFiles are the files of a volume.
func (s *Server) volumeFiles(ctx context.Context, v Volume) (files.FS, error) {
	return s.opened.use(v.ID, func() (files.FS, error) {
		return s.cfg.Sandboxes.Volume(ctx, v.Agent, s.cfg.Store.VolumeDir(v.ID))
	})
}
