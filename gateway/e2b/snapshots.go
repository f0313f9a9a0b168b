package e2b

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/sandbox/files"
)

// A Snapshot is the home directory of a sandbox at one moment, which is all of it that
// lasts: the rest is its image, and what is in memory. A sandbox that is made of it begins
// with a copy. It is kept as a tar archive; where commands are root, what they changed
// elsewhere comes after it, as another.
type Snapshot struct {
	ID       string    `json:"id"`
	Name     string    `json:"name,omitempty"`
	Agent    string    `json:"agent"`
	Sandbox  string    `json:"sandbox"` // that it was made of
	Template string    `json:"template"`
	Image    string    `json:"image,omitempty"`
	Created  time.Time `json:"created"`
	Bytes    int64     `json:"bytes"`
	Root     int64     `json:"root,omitempty"` // of these, what was changed outside of the home directory
	Preset   Preset    `json:"preset,omitzero"`

	Built bool     `json:"built,omitempty"` // it is a template that was built of steps
	Tags  []string `json:"tags,omitempty"`  // of such a template
}

// is reports whether a client means it by a text: its ID, or its name, which may have a tag
// behind it. Snapshots have one tag, by two names.
func (s Snapshot) is(text string) bool {
	name, tag, _ := strings.Cut(text, ":")
	switch {
	case name == "":
		return false
	case name == s.ID:
		return true
	case s.Built:
		return name == s.Name && slices.Contains(s.Tags, cmp.Or(tag, DefaultTag))
	}
	return name == s.Name && (tag == "" || tag == DefaultTag || tag == "latest")
}

var (
	snapshotID   = lazy.Regexp(`^s[a-z0-9]{19}$`)
	snapshotName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
)

// Bounds of snapshots.
const (
	maxSnapshots = 100 // of an agent
	maxForks     = 20  // of one call
)

func newSnapshotID() string { return idOf("s") }

// snapshots are those that are kept.
type snapshots struct {
	dir string

	mu     sync.Mutex
	all    map[string]Snapshot
	taking map[string]int // those that are being made, by agent
}

// openSnapshots reads the snapshots in a directory. An archive that no snapshot has is what
// a crash left. What is damaged is an error, or is removed where it is only a cache.
func openSnapshots(dir string, cache bool) (*snapshots, error) {
	s := &snapshots{dir: dir, all: map[string]Snapshot{}, taking: map[string]int{}}
	ids, err := idsIn(dir, ".json", snapshotID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		var snap Snapshot
		err := readRecord(s.file(id, ".json"), &snap)
		if err != nil && !cache {
			return nil, damaged(s.file(id, ".json"), "remove the file, and with it the snapshot", err)
		}
		if err != nil || snap.Built && snap.Name == "" { // its build was cut short
			if err := os.Remove(s.file(id, ".json")); err != nil {
				return nil, err
			}
			continue
		}
		s.all[id] = snap
	}
	archives, err := idsIn(dir, ".tar", nil)
	if err != nil {
		return nil, err
	}
	for _, id := range archives {
		if s.all[id].ID == "" {
			if err := os.Remove(s.file(id, ".tar")); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (s *snapshots) file(id, kind string) string { return filepath.Join(s.dir, id+kind) }

// of are an agent's, the newest first.
func (s *snapshots) of(sees func(agent string) bool) []Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.all)), func(x Snapshot) bool { return !sees(x.Agent) })
	slices.SortFunc(list, func(a, b Snapshot) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID)) })
	return list
}

// find is the newest that a text means.
func (s *snapshots) find(sees func(agent string) bool, text string) (Snapshot, bool) {
	list := s.of(sees)
	i := slices.IndexFunc(list, func(x Snapshot) bool { return x.is(text) })
	if i < 0 {
		return Snapshot{}, false
	}
	return list[i], true
}

// room counts a snapshot that is being made for an agent, unless it has as many as it may.
func (s *snapshots) room(agent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.taking[agent]
	for _, x := range s.all {
		if x.Agent == agent {
			n++
		}
	}
	if n >= maxSnapshots {
		return corral.Errorf(corral.ErrUnavailable, "remove some", "the agent %s has %d templates and snapshots, and no more may be", agent, n)
	}
	s.taking[agent]++
	return nil
}

// taken is called when a snapshot was made for which room was.
func (s *snapshots) taken(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taking[agent]--; s.taking[agent] == 0 {
		delete(s.taking, agent)
	}
}

// take makes a snapshot. write writes its archives, and returns the size of root's:
// Snapshot.Root.
func (s *snapshots) take(snap Snapshot, write func(*os.File) (root int64, err error)) (_ Snapshot, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return snap, err
	}
	if err := s.room(snap.Agent); err != nil {
		return snap, err
	}
	defer s.taken(snap.Agent)
	name := s.file(snap.ID, ".tar")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return snap, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	root, err := write(f)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return snap, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return snap, err
	}
	snap.Bytes, snap.Root = info.Size(), root
	s.mu.Lock()
	defer s.mu.Unlock()
	return snap, s.write(snap)
}

// write is called with mu held.
func (s *snapshots) write(snap Snapshot) error {
	if err := writeRecord(s.file(snap.ID, ".json"), snap, atomicfile.Options{Durable: true}); err != nil {
		return err
	}
	s.all[snap.ID] = snap
	return nil
}

func (s *snapshots) remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(id)
}

// drop is called with mu held.
func (s *snapshots) drop(id string) error {
	if err := os.Remove(s.file(id, ".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(s.all, id)
	return os.Remove(s.file(id, ".tar"))
}

// snapshotInfo is a snapshot as clients see it.
type snapshotInfo struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
}

func (s Snapshot) info() snapshotInfo {
	i := snapshotInfo{ID: s.ID, Names: []string{}}
	if s.Name != "" {
		i.Names = append(i.Names, s.Name+":latest")
	}
	return i
}

// home is the way to the files of a sandbox, for all of its home directory.
func (s *Server) home(ctx context.Context, b Box) (files.FS, error) {
	return s.cfg.Sandboxes.Files(ctx, b.Agent, b.ID)
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request, b Box) error {
	var body struct {
		Name string `json:"name"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if body.Name != "" && !snapshotName().MatchString(body.Name) {
		return corral.Errorf(corral.ErrInvalid, "use letters, digits, '_', '.' and '-'", "%.40q cannot name a snapshot", body.Name)
	}
	f, err := s.home(s.enter(r, b).Context(), b)
	if err != nil {
		return err
	}
	snap := Snapshot{ID: newSnapshotID(), Name: body.Name, Agent: b.Agent, Sandbox: b.ID, Template: b.Template, Image: b.Image, Created: time.Now().UTC(), Preset: b.Preset}
	snap, err = s.cfg.Store.snaps.take(snap, s.packed(r.Context(), b, f))
	if err != nil {
		return fmt.Errorf("cannot make a snapshot of %s: %w", b.ID, err)
	}
	return writeJSON(w, http.StatusCreated, snap.info())
}

// packed writes all of a home directory, and what root changed elsewhere.
func (s *Server) packed(ctx context.Context, b Box, f files.FS) func(*os.File) (int64, error) {
	return func(to *os.File) (root int64, err error) {
		if _, err := f.Download(ctx, Home, to, files.Limits{}); err != nil || !b.Root {
			return 0, err
		}
		return s.appendRoot(ctx, b, to)
	}
}

func (s *Server) listSnapshots(w http.ResponseWriter, r *http.Request) error {
	q, list := r.URL.Query(), []snapshotInfo{}
	for _, snap := range s.cfg.Store.snaps.of(access.From(r.Context()).Sees) {
		if box, name := q.Get("sandboxID"), q.Get("name"); !snap.Built && (box == "" || snap.Sandbox == box) && (name == "" || snap.is(name)) {
			list = append(list, snap.info())
		}
	}
	return writeJSON(w, http.StatusOK, list) // there are not so many that pages are needed
}

// unpack has a new sandbox begin with the files of its source, if that has any.
func (s *Server) unpack(ctx context.Context, b Box, of source) error {
	if of.root > 0 && !b.Root {
		return corral.Errorf(corral.ErrDenied, "set sandbox.root for the agent", "commands were root where %s was made, and are not in sandboxes of agent %s any more", b.Template, b.Agent)
	}
	if of.archive == nil {
		return nil
	}
	f, err := s.home(ctx, b)
	if err != nil {
		return err
	}
	info, err := of.archive.Stat()
	if err != nil {
		return err
	}
	home := info.Size() - of.root
	if _, err = f.Upload(ctx, Home, io.NewSectionReader(of.archive, 0, home), files.Limits{}); err != nil || of.root == 0 {
		return err
	}
	return s.takeRoot(ctx, b, io.NewSectionReader(of.archive, home, of.root))
}

// forked is one of the sandboxes that a fork makes, or why there is none.
type forked struct {
	Sandbox *made      `json:"sandbox,omitempty"`
	Error   *errorBody `json:"error,omitempty"`
}

// fork makes sandboxes that begin with a copy of the home directory of another, with its
// metadata and variables. What runs there does not run in them.
func (s *Server) fork(w http.ResponseWriter, r *http.Request, b Box) error {
	body := struct {
		Timeout *int64 `json:"timeout"`
		Count   int    `json:"count"`
	}{Count: 1}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if body.Count < 1 || body.Count > maxForks {
		return corral.Errorf(corral.ErrInvalid, "", "count must be 1 to %d", maxForks)
	}
	end, err := until(body.Timeout)
	if err != nil {
		return err
	}
	from, err := s.home(s.enter(r, b).Context(), b)
	if err != nil {
		return err
	}
	list := make([]forked, body.Count)
	for i := range list {
		one := b
		one.ID, one.Key, one.Token = newID(), access.From(r.Context()).Ref(), newToken()
		one.Paused, one.Stopped = false, false
		one.Started, one.End = time.Now().UTC(), end
		if b.Traffic != "" {
			one.Traffic = newToken()
		}
		one, err := s.make(r.Context(), one, false, func(ctx context.Context, one Box) error {
			to, err := s.home(ctx, one)
			if err == nil {
				_, err = files.Copy(ctx, from, Home+"/.", to, Home, files.Limits{})
			}
			if err == nil && one.Root {
				err = s.copyRoot(ctx, b, one)
			}
			if err == nil {
				err = s.launch(ctx, one)
			}
			return err
		})
		if err != nil {
			status, message := Status(err)
			list[i].Error = &errorBody{Code: status, Message: message}
			continue
		}
		m := s.made(one)
		list[i].Sandbox = &m
	}
	return writeJSON(w, http.StatusCreated, list)
}
