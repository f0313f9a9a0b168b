package e2b

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/e2b/archives"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/state/atomicfile"
)

// A Box is what is kept of a sandbox beside what Corral keeps of all of them. It is a
// value: the Store hands out copies, and nothing in them is changed.
type Box struct {
	ID       string `json:"id"` // also the sandbox's name
	Agent    string `json:"agent"`
	Key      string `json:"key"` // by whose it was made, or connected to last: access.Grant.Ref
	Template string `json:"template"`
	Image    string `json:"image,omitempty"` // empty: the agent's

	Metadata map[string]string `json:"metadata,omitempty"`
	Env      map[string]string `json:"env,omitempty"` // of every command
	Preset   Preset            `json:"preset,omitzero"`
	Volumes  []Mount           `json:"volumes,omitempty"`

	Started time.Time `json:"started"`
	End     time.Time `json:"end"` // when it is killed, or paused
	Paused  bool      `json:"paused,omitempty"`
	Stopped bool      `json:"stopped,omitempty"` // it was paused without what was in memory, and is not yet as it was

	PauseAtEnd   bool  `json:"pauseAtEnd,omitempty"`
	StopAtEnd    bool  `json:"stopAtEnd,omitempty"` // with PauseAtEnd: without what is in memory
	ResumeOnCall bool  `json:"resumeOnCall,omitempty"`
	Internet     *bool `json:"internet,omitempty"` // what its maker said of it

	Token   string `json:"token"`             // for what is inside
	Traffic string `json:"traffic,omitempty"` // for its ports; empty: they are public
	Host    string `json:"host,omitempty"`    // what programs behind its ports are addressed as

	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"`         // bytes
	Root   bool    `json:"root,omitempty"` // commands are root in it
}

// A Preset is what a sandbox has of the template that it is of, beside files.
type Preset struct {
	Env   map[string]string `json:"env,omitempty"`   // of every command
	Dir   string            `json:"dir,omitempty"`   // of commands that name none; empty: Home
	User  string            `json:"user,omitempty"`  // of commands that name none; empty: the sandbox's own
	Start string            `json:"start,omitempty"` // shell text that runs from the beginning on
	Ready string            `json:"ready,omitempty"` // shell text that succeeds as soon as Start is ready
	Code  bool              `json:"code,omitempty"`  // Start is given the code interpreter
}

// sessionPrefix begins the conversation by which commands go to a sandbox, before its ID.
const sessionPrefix = "e2b:"

// Session is the conversation by which commands of its agent go to it.
func (b Box) Session() string { return sessionPrefix + b.ID }

// idPattern is that of an ID. A command's ID begins with it, and a dot.
var idPattern = lazy.Regexp(`^i[a-z0-9]{19}$`)

func newID() string { return idOf("i") }

// idOf makes an ID of what a letter stands for.
func idOf(letter string) string { return letter + corral.NewID()[:19] }

// A Store has the sandboxes, each in a file. It may be used from any goroutine.
type Store struct {
	dir     string
	snaps   *snapshots
	layers  *snapshots      // of builds: snapshots after a step, named by all that led to it
	uploads *archives.Store // of builds

	mu      sync.Mutex
	boxes   map[string]Box
	volumes map[string]Volume
}

// OpenStore reads the records in a directory, which need not exist. What cannot be
// read is an error: a sandbox whose deadline is not known would run for ever.
func OpenStore(dir string) (*Store, error) {
	s := &Store{dir: dir, boxes: map[string]Box{}}
	var err error
	if s.snaps, err = openSnapshots(filepath.Join(dir, "snapshots"), false); err == nil {
		s.layers, err = openSnapshots(filepath.Join(dir, "layers"), true)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the snapshots of E2B's clients: %w", err)
	}
	if s.uploads, err = archives.Open(filepath.Join(dir, "uploads")); err != nil {
		return nil, fmt.Errorf("cannot read what E2B's clients sent for templates: %w", err)
	}
	if s.volumes, err = readVolumes(filepath.Join(dir, volumesDir)); err != nil {
		return nil, fmt.Errorf("cannot read the volumes of E2B's clients: %w", err)
	}
	roots, err := idsIn(dir, rootKind, idPattern)
	if err == nil {
		err = removeUnfinished(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the sandboxes of E2B's clients: %w", err)
	}
	ids, err := idsIn(dir, ".json", idPattern)
	if err != nil {
		return nil, fmt.Errorf("cannot read the sandboxes of E2B's clients: %w", err)
	}
	for _, id := range ids {
		var b Box
		err := readRecord(s.file(id), &b)
		if err == nil && b.ID != id {
			err = fmt.Errorf("it is about %.40q", b.ID)
		}
		if err != nil {
			return nil, damaged(s.file(id), "remove the sandbox (corral sandbox rm "+id+") and the file", err)
		}
		b.Paused = b.Paused || b.Stopped // a crash came before it was there again
		s.boxes[id] = b
	}
	for _, id := range roots { // of sandboxes that were removed before a crash
		if _, ok := s.boxes[id]; !ok {
			if err := os.Remove(s.rootFile(id)); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// rootFile has what root changed in a sandbox that was paused without what was in memory.
func (s *Store) rootFile(id string) string { return filepath.Join(s.dir, id+rootKind) }

// Ends of the names of such files, and of those that are being written.
const rootKind, unfinished = ".root.tar", ".new"

// removeUnfinished removes what a crash left.
func removeUnfinished(dir string) error {
	ids, err := idsIn(dir, rootKind+unfinished, nil)
	for _, id := range ids {
		err = errors.Join(err, os.Remove(filepath.Join(dir, id+rootKind+unfinished)))
	}
	return err
}

// Get returns a sandbox by its ID.
func (s *Store) Get(id string) (Box, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.boxes[id]
	return b, ok
}

// Of returns the sandbox that a conversation of an agent is with. With none its ID is empty;
// the error is ErrNotFound if that sandbox is gone, or another agent's.
func (s *Store) Of(agent, session string) (Box, error) {
	id, ok := strings.CutPrefix(session, sessionPrefix)
	if !ok {
		return Box{}, nil
	}
	b, ok := s.Get(id)
	if !ok || b.Agent != agent {
		return Box{}, corral.Errorf(corral.ErrNotFound, "corral sandbox ls says which there are", "agent %s has no sandbox %.40q for clients of E2B", agent, id)
	}
	return b, nil
}

// List returns all sandboxes, the newest first.
func (s *Store) List() []Box {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.boxes))
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b Box) int { return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID)) })
	return list
}

// add keeps a new sandbox, unless its agent has as many as it may. Its volumes are those of
// the names in it.
func (s *Store) add(b Box, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.findVolumes(&b); err != nil {
		return err
	}
	n := 0
	for _, other := range s.boxes {
		if other.Agent == b.Agent {
			n++
		}
	}
	if n >= most {
		return corral.Errorf(api.ErrTooMany, "kill some, or raise gateway.e2b.sandboxes", "the agent %s has %d sandboxes, and no more may be", b.Agent, n)
	}
	return s.write(b)
}

// change changes a sandbox. ErrNotFound if there is none; an error of by changes nothing.
// A power cut may undo it until sync has returned.
func (s *Store) change(id string, by func(*Box) error) (Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.boxes[id]
	if !ok {
		return b, notFound(id)
	}
	if err := by(&b); err != nil {
		return s.boxes[id], err
	}
	return b, s.write(b)
}

// sync has a sandbox be on the disk as it is. One that is gone is none any more.
func (s *Store) sync(id string) error {
	if err := atomicfile.Sync(s.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return corral.Errorf(corral.ErrUnavailable, "see the state directory", "cannot keep the sandbox %s: %w", id, err)
	}
	return nil
}

// write is called with mu held.
func (s *Store) write(b Box) error {
	if err := writeRecord(s.file(b.ID), b, atomicfile.Options{}); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see the state directory", "cannot keep the sandbox %s: %w", b.ID, err)
	}
	s.boxes[b.ID] = b
	return nil
}

// remove forgets a sandbox. ErrNotFound if there is none.
func (s *Store) remove(id string) (Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.boxes[id]
	if !ok {
		return b, notFound(id)
	}
	for _, file := range []string{s.rootFile(id), s.file(id)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	delete(s.boxes, id)
	return b, nil
}

func (s *Store) file(id string) string { return filepath.Join(s.dir, id+".json") }

func notFound(id string) error {
	return corral.Errorf(corral.ErrNotFound, "", "Sandbox %.40q not found", id)
}

// newToken is unguessable.
func newToken() string { return rand.Text() }
