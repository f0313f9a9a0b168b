package e2b

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/sandbox/files"
)

// volumeRoutes are volumes, and their files, for which a client has a token.
func (s *Server) volumeRoutes() []Route {
	routes := []Route{
		{Pattern: "GET /volumes", Right: access.Read, Handle: s.listVolumes},
		{Pattern: "POST /volumes", Right: access.Run, Handle: s.createVolume},
		{Pattern: "GET /volumes/{id}", Right: access.Read, Handle: s.getVolume},
		{Pattern: "DELETE /volumes/{id}", Right: access.Run, Handle: s.deleteVolume},
	}
	content := func(method, what string, right access.Right, do func(inVolume, http.ResponseWriter, *http.Request) error) {
		routes = append(routes, Route{Pattern: method + " /volumecontent/{id}/" + what, Right: right, Handle: s.inVolume(do), Grant: s.holder})
	}
	content("GET", "path", access.Read, inVolume.stat)
	content("PATCH", "path", access.Run, s.changeInVolume)
	content("DELETE", "path", access.Run, inVolume.remove)
	content("GET", "dir", access.Read, inVolume.list)
	content("POST", "dir", access.Run, inVolume.makeDir)
	content("GET", "file", access.Read, inVolume.read)
	content("PUT", "file", access.Run, inVolume.write)
	return routes
}

// volumeEntry is a file of a volume as clients see it. Its other times are not kept: they
// are that of its last change.
type volumeEntry struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"`
	Path   string    `json:"path"`
	Size   int64     `json:"size"`
	Mode   uint32    `json:"mode"`
	UID    int       `json:"uid"`
	GID    int       `json:"gid"`
	ATime  time.Time `json:"atime"`
	MTime  time.Time `json:"mtime"`
	CTime  time.Time `json:"ctime"`
	Target string    `json:"target,omitempty"`
}

func newVolumeEntry(i files.Info) volumeEntry {
	e := volumeEntry{
		Name: path.Base(i.Path), Type: "unknown", Path: i.Path, Size: i.Size, Mode: uint32(i.Mode), UID: i.UID, GID: i.GID,
		ATime: i.ModTime, MTime: i.ModTime, CTime: i.ModTime, Target: i.Target,
	}
	switch i.Type {
	case files.TypeFile, files.TypeDir, files.TypeLink:
		e.Type = string(i.Type)
	}
	if i.Type == files.TypeDir {
		e.Size = dirSize
	}
	return e
}

// inVolume is a call for a file of a volume.
type inVolume struct {
	files.FS
	volume Volume
	name   string // of the file: absolute, with the volume as the root
	query  url.Values
}

// inVolume finds what a call is about.
func (s *Server) inVolume(do func(inVolume, http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) (err error) {
		c := inVolume{query: r.URL.Query()}
		name := c.query.Get("path")
		if name == "" {
			return corral.Errorf(corral.ErrInvalid, "add ?path=", "the path is missing")
		}
		if c.name, err = files.Clean("", name); err != nil {
			return err
		}
		if c.volume, err = s.findVolume(r); err != nil {
			return err
		}
		if c.FS, err = s.volumeFiles(r.Context(), c.volume); err != nil {
			return err
		}
		return do(c, w, r)
	}
}

// user1000 is the user of E2B's sandboxes.
const user1000 = 1000

// metadata is what a client says of a file in a volume.
type metadata struct {
	UID  *uint32 `json:"uid"`
	GID  *uint32 `json:"gid"`
	Mode *uint32 `json:"mode"`
}

func (m metadata) check() error {
	for _, id := range []*uint32{m.UID, m.GID} {
		if id != nil && *id != user1000 {
			return corral.Errorf(corral.ErrInvalid, "leave uid and gid out", "files of a volume are the sandbox's user's (%d for clients), and cannot be those of %d", user1000, *id)
		}
	}
	if m.Mode != nil && *m.Mode > 0o777 {
		return corral.Errorf(corral.ErrInvalid, "use 0 to 0777", "%#o are no permissions of a file", *m.Mode)
	}
	return nil
}

func (m metadata) mode() files.Mode {
	if m.Mode == nil {
		return 0
	}
	return files.Mode(*m.Mode)
}

func queryMetadata(q url.Values) (m metadata, err error) {
	for name, to := range map[string]**uint32{"uid": &m.UID, "gid": &m.GID, "mode": &m.Mode} {
		if !q.Has(name) {
			continue
		}
		n, err := strconv.ParseUint(q.Get(name), 10, 32)
		if err != nil {
			return m, corral.Errorf(corral.ErrInvalid, "", "the parameter %s is not understood: %w", name, err)
		}
		v := uint32(n)
		*to = &v
	}
	return m, m.check()
}

// answer says what the file is like now.
func (c inVolume) answer(ctx context.Context, w http.ResponseWriter, status int) error {
	i, err := c.Stat(ctx, c.name)
	if err != nil {
		return err
	}
	return writeJSON(w, status, newVolumeEntry(i))
}

func (c inVolume) stat(w http.ResponseWriter, r *http.Request) error {
	return c.answer(r.Context(), w, http.StatusOK)
}

func (s *Server) changeInVolume(c inVolume, w http.ResponseWriter, r *http.Request) error {
	var m metadata
	if err := readJSON(w, r, &m); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	if _, err := c.Stat(r.Context(), c.name); err != nil {
		return err
	}
	if m.Mode != nil {
		root, err := os.OpenRoot(s.cfg.Store.VolumeDir(c.volume.ID))
		if err != nil {
			return err
		}
		defer root.Close()
		if err := root.Chmod("."+c.name, os.FileMode(*m.Mode)); err != nil {
			return corral.Errorf(corral.ErrDenied, "", "cannot change %s: %w", c.name, err)
		}
	}
	return c.answer(r.Context(), w, http.StatusOK)
}

func (c inVolume) remove(w http.ResponseWriter, r *http.Request) error {
	if c.name == "/" {
		return corral.Errorf(corral.ErrInvalid, "remove what is in it, or the volume", "%s cannot be removed", c.name)
	}
	return noContent(w, c.Remove(r.Context(), c.name, true))
}

func (c inVolume) list(w http.ResponseWriter, r *http.Request) error {
	depth := uint64(1)
	if c.query.Has("depth") {
		var err error
		if depth, err = strconv.ParseUint(c.query.Get("depth"), 10, 32); err != nil {
			return corral.Errorf(corral.ErrInvalid, "", "the parameter depth is not understood: %w", err)
		}
	}
	found, err := listTree(r.Context(), c, c.name, uint32(depth))
	if err != nil {
		return err
	}
	list := []volumeEntry{}
	for _, i := range found {
		list = append(list, newVolumeEntry(i))
	}
	return writeJSON(w, http.StatusOK, list)
}

// force reports whether directories that lack are made as well.
func (c inVolume) force() bool { return c.query.Get("force") == "true" }

func (c inVolume) makeDir(w http.ResponseWriter, r *http.Request) error {
	m, err := queryMetadata(c.query)
	if err != nil {
		return err
	}
	if err := c.Mkdir(r.Context(), c.name, files.MkdirOptions{Mode: m.mode(), Parents: c.force()}); err != nil {
		return err
	}
	return c.answer(r.Context(), w, http.StatusCreated)
}

func (c inVolume) read(w http.ResponseWriter, r *http.Request) error {
	return sendFile(r.Context(), w, r, c, c.name)
}

func (c inVolume) write(w http.ResponseWriter, r *http.Request) error {
	m, err := queryMetadata(c.query)
	if err != nil {
		return err
	}
	if _, err := c.Write(r.Context(), c.name, r.Body, files.WriteOptions{Mode: m.mode(), Parents: c.force(), Volatile: true}); err != nil {
		return err
	}
	return c.answer(r.Context(), w, http.StatusCreated)
}
