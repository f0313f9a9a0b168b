package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// PruneOptions say what is old. Zero: nothing is.
type PruneOptions struct {
	Idle time.Duration // since a sandbox was used: it goes, with its private workspace
	Age  time.Duration // of a container: the next command gets a new one
	// Lifetime is like Age, from when the container became the sandbox's. What
	// still runs there LifetimeGrace later is ended.
	Lifetime time.Duration
}

// old reports which of a sandbox's boxes are old, and whether it is idle.
func (o PruneOptions) old(s Sandbox, now time.Time) (idle bool, ids map[string]bool) {
	ids = map[string]bool{}
	if s.Paused { // it is there to be resumed, and does not say whether something runs
		return false, ids
	}
	for _, b := range s.Boxes {
		if o.Age > 0 && now.Sub(b.Created) > o.Age || o.Lifetime > 0 && now.Sub(b.Since) > o.Lifetime {
			ids[b.ID] = true
		}
	}
	return o.Idle > 0 && now.Sub(s.Used) > o.Idle && !s.Gone(), ids
}

// Prune removes what is old of a sandbox, and returns the names of the
// containers that it removed. What runs goes on: an idle sandbox in which
// something runs is not removed, nor one that another program uses, and a
// container that is too old goes after its last command; unless its lifetime
// was over LifetimeGrace ago.
func (e *Executor) Prune(ctx context.Context, o PruneOptions) (removed []string, err error) {
	s, err := Find(e.stateDir, e.name)
	if errors.Is(err, corral.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	idle, old := o.old(s, time.Now())
	if !idle && len(old) == 0 {
		return nil, nil
	}
	if err := e.openAll(ctx); err != nil {
		return nil, err
	}
	var errs []error
	for _, b := range e.open() {
		if !idle && !old[b.ID] {
			continue
		}
		e.mu.Lock()
		b.stale = b.stale || old[b.ID]
		if e.current == b {
			e.current = nil
		}
		if e.last == b.ID {
			e.last = ""
		}
		e.mu.Unlock()
		if o.Lifetime > 0 && time.Since(b.since()) > o.Lifetime+LifetimeGrace {
			errs = append(errs, ignoreOther(e.endLife(ctx, b, o.Lifetime)))
		}
		gone, err := e.tryRemove(ctx, b)
		errs = append(errs, err)
		if gone {
			removed = append(removed, b.Container)
		}
	}
	e.mu.Lock()
	e.startDraining()
	e.mu.Unlock()
	if idle {
		errs = append(errs, e.pruneWorkspace(ctx, o))
	}
	return removed, errors.Join(errs...)
}

// pruneWorkspace removes the private workspace, and the secrets, of a sandbox
// without containers.
func (e *Executor) pruneWorkspace(ctx context.Context, o PruneOptions) error {
	unlock, err := lockSandbox(ctx, e.stateDir, e.name)
	if err != nil {
		return err
	}
	defer unlock()
	if s, err := Find(e.stateDir, e.name); err != nil || time.Since(s.Used) <= o.Idle {
		return err // it has been used meanwhile
	}
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil || len(rec.Boxes) > 0 {
		return err
	}
	if err := secrets.Drop(e.stateDir, e.name); err != nil || rec.Workspace == "" {
		return err
	}
	if err := removeWorkspace(ctx, e.engine, e.stateDir, rec.Workspace); err != nil {
		return err
	}
	rec.Workspace = ""
	return saveSandbox(e.stateDir, rec, true)
}

// Prune removes what is old in the sandboxes of a state directory, by the options
// that of returns for each, and forgets sandboxes that have nothing left, not even
// records. It returns the names of the containers that it removed. It leaves alone
// a sandbox that an Executor has open.
func Prune(ctx context.Context, engine engine.Engine, stateDir string, of func(Sandbox) PruneOptions) (removed []string, err error) {
	list, err := Sandboxes(stateDir)
	errs := []error{err}
	for _, s := range list {
		o := of(s)
		idle, old := o.old(s, time.Now())
		if idle || len(old) > 0 {
			names, err := pruneOne(ctx, engine, stateDir, s.Name, o)
			removed = append(removed, names...)
			errs = append(errs, err)
		}
		if o.Idle > 0 && time.Since(s.Used) > max(o.Idle, wardenexec.Retain) {
			errs = append(errs, Forget(ctx, stateDir, s.Name))
		}
	}
	return removed, errors.Join(errs...)
}

func pruneOne(ctx context.Context, engine engine.Engine, stateDir, name string, o PruneOptions) (removed []string, err error) {
	e, err := New(Config{Engine: engine, StateDir: stateDir, Name: name})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return e.Prune(ctx, o)
}

// Unused reports whether the sandbox has nothing, not even records of commands.
func (e *Executor) Unused() (bool, error) {
	rec, err := loadSandbox(e.stateDir, e.name)
	left, gerr := glob(filepath.Join(e.dir, execDir), "*.json")
	if err = errors.Join(err, gerr); err != nil || !rec.gone() || len(left) > 0 {
		return false, err
	}
	return e.records.Empty()
}

// Forget removes the directory of a sandbox that has nothing and of whose
// commands no records are kept any more. It must not be open.
func Forget(ctx context.Context, stateDir, name string) error {
	unlock, err := lockSandbox(ctx, stateDir, name)
	if err != nil {
		return ignoreMissing(err) // nothing is noted of one that could not be opened
	}
	defer unlock()
	rec, err := loadSandbox(stateDir, name)
	if err != nil || !rec.gone() {
		return err
	}
	dir := sandboxDir(stateDir, name)
	if left, err := glob(filepath.Join(dir, execDir), "*.json"); err != nil || slices.ContainsFunc(left, isKept) {
		return err
	}
	gone := sandboxDir(stateDir, forgotten+name) // where nobody opens it
	unused, err := wardenexec.Unused(filepath.Join(dir, logsDir), func() error { return errors.Join(os.RemoveAll(gone), os.Rename(dir, gone)) })
	if err != nil || !unused {
		return err
	}
	return os.RemoveAll(gone)
}

// sweepForgotten removes what a program that was killed in Forget left.
func sweepForgotten(state string) error {
	left, err := glob(filepath.Join(state, sandboxesDir), forgotten+"*")
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// isKept reports whether a record is so young that a program may ask for it.
func isKept(file string) bool {
	info, err := os.Stat(file)
	return err == nil && time.Since(info.ModTime()) < wardenexec.Retain
}
