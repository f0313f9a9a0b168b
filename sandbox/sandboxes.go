package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/spelling"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/private"
)

// A Sandbox is what is noted of a sandbox, whether it is in use or not.
type Sandbox struct {
	Name      string    `json:"name"`
	Owner     string    `json:"owner,omitempty"` // the agent whose it is
	Key       string    `json:"key,omitempty"`   // what it was named after
	Created   time.Time `json:"created"`
	Used      time.Time `json:"used"`                // to the minute
	Paused    bool      `json:"paused,omitempty"`    // what runs in it is frozen
	Workspace string    `json:"workspace,omitempty"` // the directory of a private one, if it is one of this machine
	// Volume is the name of the private workspace's volume, if it is one of an
	// engine that does not see this machine's directories.
	Volume string `json:"workspaceVolume,omitempty"`
	// WorkspaceSize is what the private workspace may take, in bytes; 0: it
	// is not limited.
	WorkspaceSize int64 `json:"workspaceSize,omitempty"`
	Boxes         []Box `json:"boxes"` // its containers; commands go to the last
}

// A Box is a container as it was noted.
type Box struct {
	ID          string    `json:"id"`
	Container   string    `json:"container"`             // its name at the engine when it was made
	ContainerID string    `json:"containerID,omitempty"` // by which the engine finds it, also by another name; empty: it is not known
	Engine      string    `json:"engine"`                // engine.Info.Name
	EngineID    string    `json:"engineID,omitempty"`    // engine.Info.ID; empty: it is not known
	Address     string    `json:"engineAddress,omitempty"`
	Image       string    `json:"image"`
	Driver      Driver    `json:"driver"`
	Hash        string    `json:"hash"` // of the configuration, see Config.Hash
	Created     time.Time `json:"created"`
	Since       time.Time `json:"since,omitzero"`   // when it became the sandbox's: later than it was made, if it is of a pool
	Pooled      bool      `json:"pooled,omitempty"` // it was made ahead
	Description
}

// A Description is what a container was made like. What earlier versions made has
// none.
type Description struct {
	Runtime   string `json:"runtime,omitempty"` // empty: the engine's default
	User      string `json:"user,omitempty"`    // uid:gid
	Root      bool   `json:"root,omitempty"`    // it is root, with a root file system that can be written to
	Access    Access `json:"workspaceAccess,omitempty"`
	Directory string `json:"workspaceDirectory,omitempty"` // of this machine, unless the workspace is private
	Network   string `json:"network,omitempty"`            // empty: none
	Limits    Limits `json:"limits,omitzero"`
}

// Limits are what all commands of a container may use together.
type Limits struct {
	Memory int64   `json:"memory"`         // bytes; 0: unlimited
	Swap   int64   `json:"swap,omitempty"` // bytes beside Memory; negative: unlimited
	CPUs   float64 `json:"cpus"`           // 0: unlimited
	Pids   int64   `json:"pids"`           // 0: unlimited
}

// describe notes what the container is made like.
func (r *boxRecord) describe(s *setup, spec engine.Spec) {
	r.Description = Description{
		Runtime: spec.Runtime, User: spec.User, Root: spec.Root, Access: s.Workspace.Access, Directory: s.Workspace.Dir, Network: spec.Network,
		Limits: Limits{Memory: spec.Memory, Swap: spec.Swap, CPUs: spec.CPUs, Pids: spec.Pids},
	}
}

func (r boxRecord) box() Box {
	r.Since = r.since()
	return r.Box
}

// Sandboxes are those of a state directory, by name. No engine is asked.
func Sandboxes(stateDir string) ([]Sandbox, error) {
	names, err := entries(filepath.Join(stateDir, sandboxesDir))
	if err != nil {
		return nil, err
	}
	list := make([]Sandbox, 0, len(names))
	var errs []error
	for _, name := range names {
		if !namePattern().MatchString(name) {
			continue
		}
		s, err := Find(stateDir, name)
		if err == nil {
			list = append(list, s)
		} else if !errors.Is(err, corral.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	slices.SortFunc(list, func(a, b Sandbox) int { return strings.Compare(a.Name, b.Name) })
	return list, errors.Join(errs...)
}

// WhichHint is the hint when there is no sandbox of a name, but those of names.
func WhichHint(name string, names []string) string {
	const which = "corral sandbox ls says which there are"
	if like := spelling.Nearest(name, names); like != "" {
		return "did you mean " + like + "? " + which
	}
	return which
}

// Gone reports whether a sandbox was removed: only records of its commands are left.
func (s Sandbox) Gone() bool { return len(s.Boxes) == 0 && s.Workspace == "" && s.Volume == "" }

// Find returns what is noted of a sandbox; ErrNotFound if nothing is.
func Find(stateDir, name string) (Sandbox, error) {
	if !namePattern().MatchString(name) {
		return Sandbox{}, corral.Errorf(corral.ErrInvalid, "corral sandbox ls says which there are", "%q cannot name a sandbox", name)
	}
	dir := sandboxDir(stateDir, name)
	if _, err := os.Stat(filepath.Join(dir, sandboxFile)); errors.Is(err, fs.ErrNotExist) {
		names, _ := entries(filepath.Join(stateDir, sandboxesDir)) // without them the hint says less
		names = slices.DeleteFunc(names, func(n string) bool { rec, err := loadSandbox(stateDir, n); return err != nil || rec.gone() })
		return Sandbox{}, corral.Errorf(corral.ErrNotFound, WhichHint(name, names), "there is no sandbox %q of the state directory %s", name, stateDir)
	}
	rec, err := loadSandbox(stateDir, name)
	if err != nil {
		return Sandbox{}, err
	}
	s := Sandbox{Name: name, Owner: rec.Owner, Key: rec.Key, Created: rec.Created, Used: rec.Created, Paused: isPaused(stateDir, name), Boxes: []Box{}}
	if rec.Workspace != "" {
		s.Workspace = workspaceDir(stateDir, rec.Workspace)
		if _, err := os.Stat(s.Workspace); errors.Is(err, fs.ErrNotExist) {
			s.Workspace, s.Volume = "", workspaceVolume(rec.Workspace)
		}
		if s.WorkspaceSize, err = private.Size(workspaceDir(stateDir, rec.Workspace)); err != nil {
			return Sandbox{}, err
		}
	}
	if info, err := os.Stat(filepath.Join(dir, usedFile)); err == nil {
		s.Used = info.ModTime().UTC().Truncate(time.Second)
	}
	for _, id := range rec.Boxes {
		b, err := loadBox(stateDir, id)
		if ignoreMissing(err) != nil {
			return Sandbox{}, err
		}
		if err == nil {
			s.Boxes = append(s.Boxes, b.box())
		}
	}
	return s, nil
}

// Running is how many commands of a sandbox have been started and are not noted as
// ended. It counts those that ended while no program had the sandbox open.
func Running(stateDir, name string) (int, error) {
	if !namePattern().MatchString(name) {
		return 0, nil
	}
	dir := sandboxDir(stateDir, name)
	n, err := wardenexec.Unended(filepath.Join(dir, logsDir))
	if err != nil {
		return 0, fmt.Errorf("cannot tell what runs in the sandbox %s: %w", name, err)
	}
	files, err := glob(filepath.Join(dir, execDir), "*.json")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		var rec struct { // of package streamexec
			Exit *json.RawMessage `json:"exit"`
			Lost string           `json:"lost"`
		}
		if err := readJSON(file, &rec); err == nil && rec.Exit == nil && rec.Lost == "" {
			n++
		}
	}
	return n, nil
}

// Agents are the processes of all sandboxes that were begun for an agent and whose
// records are still there, and for which agent. Sandboxes need not be open.
func Agents(stateDir string) (map[string]string, error) {
	names, err := entries(filepath.Join(stateDir, sandboxesDir))
	if err != nil {
		return nil, fmt.Errorf("cannot tell which sandboxes there are: %w", err)
	}
	all := map[string]string{}
	var errs []error
	for _, name := range names {
		if !namePattern().MatchString(name) {
			continue
		}
		agents, err := wardenexec.Agents(filepath.Join(sandboxDir(stateDir, name), logsDir))
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot read the records of the sandbox %s: %w", name, err))
		}
		maps.Copy(all, agents)
	}
	return all, errors.Join(errs...)
}

// Knows reports whether a process is in the records of a sandbox that need not
// be open.
func Knows(stateDir, name, id string) bool {
	if corral.ValidateID(id) != nil || !namePattern().MatchString(name) {
		return false
	}
	dir := sandboxDir(stateDir, name)
	if _, err := os.Stat(filepath.Join(dir, execDir, id+".json")); err == nil {
		return true
	}
	b, err := os.ReadFile(filepath.Join(dir, logsDir, wardenexec.JournalName))
	return err == nil && (bytes.Contains(b, []byte("\nS "+id+" ")) || bytes.Contains(b, []byte("\nE "+id+" ")))
}

// Knows reports whether a process is in the records.
func (e *Executor) Knows(id string) bool {
	started, _, err := e.records.Known(id)
	if started || err != nil {
		return true // Attach reports the error
	}
	_, err = os.Stat(filepath.Join(e.dir, execDir, id+".json"))
	return err == nil && corral.ValidateID(id) == nil
}
