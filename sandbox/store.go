package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A state directory:
//
//	sandboxes/NAME/sandbox.json  a sandbox: its boxes, and its private workspace
//	sandboxes/NAME/logs, exec    records and logs of its commands
//	sandboxes/NAME/used          its time of change is when it was used last
//	sandboxes/NAME/history       what is known of its boxes that are gone, and what their setup commands wrote
//	boxes/ID/box.json            a container, written before the engine is asked for it
//	boxes/ID/life.json           what happened to it; setup.log is what its setup command wrote
//	boxes/ID/run                 the sockets of its warden
//	boxes/ID/secret              by which its warden is known, where it runs in gVisor
//	boxes/ID/lock                shared while the box is in use; exclusive while it is removed
//	workspaces/ID/               a private workspace
//
// What refers to something is written before that is made, and removed after it:
// a box before its container and its workspace, a sandbox before its workspace.
// Only the reference from a sandbox to its box comes last, when the box works;
// until then the sandbox's lock is held. So all that a crash leaves can be found from
// here, and what nothing refers to while the lock is free is garbage.
const (
	sandboxesDir  = "sandboxes"
	boxesDir      = "boxes"
	workspacesDir = "workspaces"
	wardensDir    = "bin"

	logsDir     = "logs"
	execDir     = "exec"
	sandboxFile = "sandbox.json"
	boxFile     = "box.json"
	boxLock     = "lock"
	boxRun      = "run"
	boxSecret   = "secret"
	usedFile    = "used"
	pausedFile  = "paused" // is there while the sandbox is paused
	nascent     = ".new-"  // prefix of a box's directory while it is filled
	forgotten   = ".gone-" // prefix of a sandbox's while it is removed

	storeVersion = 1
)

// sandboxRecord is a sandbox.json. It is changed under the sandbox's lock.
type sandboxRecord struct {
	Version   int       `json:"version"`
	Name      string    `json:"name"`
	Owner     string    `json:"owner,omitempty"` // the agent whose it is
	Key       string    `json:"key,omitempty"`   // what it was named after
	Created   time.Time `json:"created"`
	Workspace string    `json:"workspace,omitempty"` // ID of the private one
	Ephemeral bool      `json:"ephemeral,omitempty"` // it goes with its program
	Boxes     []string  `json:"boxes"`               // IDs; the last is what was used last
}

func (r sandboxRecord) gone() bool { return r.Workspace == "" && len(r.Boxes) == 0 }

// boxRecord is a box.json. It changes when its container is made, and if it is taken from a pool.
type boxRecord struct {
	Box
	Version   int       `json:"version"`
	Sandbox   string    `json:"sandbox"`             // whose it is; empty: a pool's
	Warden    string    `json:"warden"`              // where its warden comes from; empty: it has none
	Fallback  bool      `json:"fallback,omitempty"`  // the driver was not asked for, but no other works
	Workspace string    `json:"workspace,omitempty"` // ID of the private one that it has
	Taken     time.Time `json:"taken,omitzero"`      // from a pool; zero: it was not
	UID       int       `json:"uid,omitempty"`       // that nothing else on this machine has; 0: it shares one
	Env       []string  `json:"env,omitempty"`       // of its image
}

// now is the time of a box's record: boxes are told apart by it that follow one
// another within a second.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// since is when a box became its sandbox's.
func (r boxRecord) since() time.Time {
	if r.Taken.IsZero() {
		return r.Created
	}
	return r.Taken
}

func sandboxDir(state, name string) string { return filepath.Join(state, sandboxesDir, name) }
func boxDir(state, id string) string       { return filepath.Join(state, boxesDir, id) }
func boxPath(state, id string) string      { return filepath.Join(boxDir(state, id), boxFile) }
func containerName(id string) string       { return "corral-" + id }
func workspaceDir(state, id string) string { return filepath.Join(state, workspacesDir, id) }

// newBoxID is like main-3k9x0c2m: whose box it is, for people, and a random part.
func newBoxID(name string) string { return boxPrefix(name) + corral.NewID()[:8] }

// newBox is the record of a box whose container an engine is to make, for a sandbox or a
// pool of that name.
func (s *setup) newBox(name string, driver Driver, info engine.Info) boxRecord {
	id := newBoxID(name)
	return boxRecord{Version: storeVersion, Box: Box{
		ID: id, Container: containerName(id), Engine: info.Name, EngineID: info.ID, Address: info.Address,
		Image: s.Image, Hash: s.hash, Driver: driver, Created: now(),
	}}
}

// maxPrefix is how much of a sandbox's name is in its boxes' IDs. Those are names
// of containers, for which some engines take 76 characters, and no two separators
// beside each other.
const maxPrefix = 40

var separators = lazy.Regexp(`[._-]+`)

// boxPrefix is what the IDs of a sandbox's boxes begin with. Those of others may
// begin like that too.
func boxPrefix(name string) string {
	name = separators().ReplaceAllString(name, "-")
	return strings.Trim(name[:min(len(name), maxPrefix)], "-") + "-"
}

// loadSandbox reads what is known of a sandbox; there may be nothing yet.
func loadSandbox(state, name string) (sandboxRecord, error) {
	var rec sandboxRecord
	err := readJSON(filepath.Join(sandboxDir(state, name), sandboxFile), &rec)
	if errors.Is(err, fs.ErrNotExist) {
		return sandboxRecord{Version: storeVersion, Name: name, Created: time.Now().UTC().Truncate(time.Second)}, nil
	}
	return rec, err
}

// saveSandbox writes a sandbox.json, and with sync waits until it is on the disk.
func saveSandbox(state string, rec sandboxRecord, sync bool) error {
	return writeJSON(filepath.Join(sandboxDir(state, rec.Name), sandboxFile), rec, sync)
}

// loadBox reads a box.json; fs.ErrNotExist if there is none.
func loadBox(state, id string) (boxRecord, error) {
	var rec boxRecord
	err := readJSON(filepath.Join(boxDir(state, id), boxFile), &rec)
	if err == nil && rec.ID != id {
		err = fmt.Errorf("%s is about a box %q", filepath.Join(boxDir(state, id), boxFile), rec.ID)
	}
	return rec, err
}

// saveBox makes a box's directory, whole or not at all.
func saveBox(state string, rec boxRecord) error {
	boxes := filepath.Join(state, boxesDir)
	if err := os.MkdirAll(boxes, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of boxes: %w", err)
	}
	unlock, err := lockNascent(boxes)
	if err != nil {
		return err
	}
	defer unlock()
	tmp := filepath.Join(boxes, nascent+rec.ID)
	err = os.Mkdir(tmp, 0o700)
	if err == nil {
		// Another user's warden reads it, through the mount; on this machine
		// the directory above keeps others out.
		err = os.Mkdir(filepath.Join(tmp, boxRun), 0o700)
	}
	if err == nil {
		err = os.Chmod(filepath.Join(tmp, boxRun), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tmp, boxLock), nil, 0o600)
	}
	if err == nil {
		err = writeJSON(filepath.Join(tmp, boxFile), rec, true)
	}
	if err == nil {
		err = os.Rename(tmp, boxDir(state, rec.ID))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot note the box %s: %w", rec.ID, err), os.RemoveAll(tmp))
	}
	return atomicfile.SyncDir(boxes)
}

// maxEnv bounds the environment of an image, in bytes.
const maxEnv = 128 << 10

// noteEnv notes the environment of a new box's image.
func (r *boxRecord) noteEnv(state string, env []string) error {
	if n := len(strings.Join(env, "\x00")); n > maxEnv {
		return corral.Errorf(corral.ErrInvalid, "use an image with less of it", "the variables (ENV) of the image %s have %d bytes, of at most %d", r.Image, n, maxEnv)
	}
	r.Env = env
	return writeJSON(boxPath(state, r.ID), r, false)
}

// lockSandbox makes changes to a sandbox one at a time, among all programs.
func lockSandbox(ctx context.Context, state, name string) (unlock func(), err error) {
	return locked(ctx, filepath.Join(sandboxDir(state, name), "container.lock"))
}

// lockNascent keeps others from making boxes' directories, and from sweeping
// what is not whole yet, for an instant.
func lockNascent(boxes string) (unlock func(), err error) {
	return locked(context.Background(), filepath.Join(boxes, ".lock"))
}

// sweepNascent removes boxes' directories that were never whole.
func sweepNascent(state string) error {
	boxes := filepath.Join(state, boxesDir)
	left, err := glob(boxes, nascent+"*")
	if err != nil || len(left) == 0 {
		return err
	}
	unlock, err := lockNascent(boxes)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, dir := range left { // the program that made them is gone, or done
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// entries are the names in a directory of the store; none if there is none.
func entries(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range list {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// glob are the paths in a directory, which may be called anything, with names of a pattern.
func glob(dir, pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), pattern)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names, err
}

// maxStored bounds a file of the store, in bytes.
const maxStored = 1 << 20

func readJSON(file string, v any) error {
	err := journal.ReadFile(file, maxStored, v)
	if _, io := errors.AsType[*fs.PathError](err); err != nil && !io {
		return corral.Errorf(corral.ErrUnavailable, "remove it, and then: corral sandbox sweep", "%s is damaged: %w", file, err)
	}
	return err
}

func writeJSON(file string, v any, durable bool) error {
	return journal.WriteFile(file, v, atomicfile.Options{Durable: durable})
}
