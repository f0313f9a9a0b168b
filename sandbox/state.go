package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/place"
	"github.com/corral-exec/corral/sandbox/private"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// sweepOnce removes, before this life's first container, those that will not be
// used again, and what a crash left of this sandbox. The sandbox's lock is held.
func (e *Executor) sweepOnce(ctx context.Context) error {
	e.mu.Lock()
	done := e.swept
	e.mu.Unlock()
	if done {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, giveUpLimit) // something may be stuck
	defer cancel()
	_, err := sweepContainers(soon, e.engine, e.stateDir)
	ids, ierr := boxesOf(e.stateDir, e.name)
	for _, id := range ids {
		_, serr := sweepUnreferred(soon, e.engine, e.stateDir, id)
		err = errors.Join(err, ignoreOther(serr))
	}
	if err = errors.Join(err, ierr, sweepImages(soon, e.engine, e.stateDir)); err != nil {
		if _, err := e.engine.Info(ctx); err != nil { // it is not there
			return err
		}
		e.log.Warn("cannot remove what sandboxes left that are gone, or a crash", "name", e.name, "error", err)
	}
	e.mu.Lock()
	e.swept = true
	e.mu.Unlock()
	return nil
}

// Sweep removes what will not be used again. These are ephemeral containers whose
// owner is known to be dead, with their state directory; and in stateDir the
// containers, boxes and private workspaces to which nothing refers, as crashes leave
// them, and containers that were kept for commands which have ended meanwhile. What
// is in use stays. It returns the names of the containers that it removed.
func Sweep(ctx context.Context, engine engine.Engine, stateDir string) ([]string, error) {
	removed, err := sweepContainers(ctx, engine, stateDir)
	var errs []error
	note := func(names []string, err error) {
		removed = append(removed, names...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	note(nil, err)
	note(nil, errors.Join(sweepNascent(stateDir), sweepForgotten(stateDir)))
	note(sweepBoxes(ctx, engine, stateDir))
	note(sweepLeft(ctx, engine, stateDir))
	exists := func(name string) bool {
		_, err := os.Stat(sandboxDir(stateDir, name))
		return !errors.Is(err, os.ErrNotExist)
	}
	note(nil, errors.Join(sweepImages(ctx, engine, stateDir), sweepWorkspaces(ctx, engine, stateDir), secrets.Sweep(stateDir, exists), lent.Sweep(ctx)))
	slices.Sort(removed)
	return slices.Compact(removed), errors.Join(errs...)
}

// sweepContainers removes containers without a box. A box is there before its
// container, and the list is older than the look at it.
func sweepContainers(ctx context.Context, engine engine.Engine, stateDir string) ([]string, error) {
	list, err := engine.List(ctx, map[string]string{Label: "sandbox"})
	if err != nil {
		return nil, err
	}
	var removed []string
	dirs := map[string]bool{} // to go with their last container
	var errs []error
	for _, c := range list {
		dir := c.Labels[labelState]
		ephemeral, box := c.Labels[labelEphemeral] == "1", c.Labels[labelBox]
		if !filepath.IsAbs(dir) || !ephemeral && dir != stateDir || box != "" && c.Name != containerName(box) && !isBox(dir, box, c) {
			continue
		}
		ours := oursToJudge(c)
		switch {
		case ephemeral && ours:
			if place.InUse(dir) {
				continue
			}
		case ephemeral:
			if gone, err := ownerGone(ctx, engine, c); err != nil || !gone {
				errs = append(errs, err) // if any
				continue
			}
		case !ours:
			continue
		case box != "": // earlier versions had none
			if _, err := os.Stat(boxDir(dir, box)); !errors.Is(err, os.ErrNotExist) {
				continue
			}
		}
		if err := engine.Remove(ctx, c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, c.Name)
		if ephemeral && ours && place.Marked(dir) {
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		if err := removeState(ctx, engine, dir); err != nil {
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// isBox reports whether a container with another name is a box's, which was renamed: else
// it is a user's, of an image that was made of a box's.
func isBox(dir, box string, c engine.Container) bool {
	rec, err := loadBox(dir, box)
	return err == nil && rec.ContainerID == c.ID
}

// oursToJudge reports whether what is at the path of a container's state directory
// here is that directory.
func oursToJudge(c engine.Container) bool {
	text := c.Labels[labelPlace]
	if text == "" { // made by an earlier version, or by another system's
		return true
	}
	ephemeral := c.Labels[labelEphemeral] == "1"
	return place.Parse(text).Sees(place.Of(c.Labels[labelState], ephemeral), ephemeral)
}

// ownerGone reports whether the owner of an ephemeral container was in a container
// of this engine that has ended.
func ownerGone(ctx context.Context, eng engine.Engine, c engine.Container) (bool, error) {
	id := c.Labels[labelOwner]
	if id == "" {
		return false, nil
	}
	owner, err := eng.Inspect(ctx, id)
	if errors.Is(err, engine.ErrNoContainer) {
		return true, nil
	}
	return err == nil && !owner.Running, err
}

// sweepWait is how long a sweep waits for a sandbox that is being changed. What
// is left of that is swept by who changes it.
const sweepWait = 100 * time.Millisecond

// sweepBoxes removes boxes to which no sandbox refers.
func sweepBoxes(ctx context.Context, engine engine.Engine, stateDir string) (removed []string, err error) {
	ids, err := entries(filepath.Join(stateDir, boxesDir))
	errs := []error{err}
	for _, id := range ids {
		box, err := loadBox(stateDir, id)
		gone := false
		switch {
		case errors.Is(err, os.ErrNotExist): // of a box that was removed by half
			err = nil
			if _, serr := os.Stat(boxPath(stateDir, id)); errors.Is(serr, os.ErrNotExist) {
				err = private.RemoveTree(boxDir(stateDir, id))
			}
		case err != nil:
		case box.Sandbox == "":
			gone, err = sweepUnclaimed(ctx, engine, stateDir, box)
		default:
			wait, cancel := context.WithTimeout(ctx, sweepWait)
			unlock, lerr := lockSandbox(wait, stateDir, box.Sandbox)
			cancel()
			if lerr != nil && !errors.Is(lerr, os.ErrNotExist) {
				continue // it is being worked on
			}
			gone, err = sweepUnreferred(ctx, engine, stateDir, id)
			if lerr == nil {
				unlock()
			}
		}
		if errs = append(errs, ignoreOther(err)); gone {
			removed = append(removed, box.Container)
		}
	}
	return removed, errors.Join(errs...)
}

// sweepUnreferred removes a box, unless its sandbox refers to it. The sandbox's lock is held,
// or there is no sandbox.
func sweepUnreferred(ctx context.Context, engine engine.Engine, stateDir, id string) (gone bool, err error) {
	box, err := loadBox(stateDir, id)
	if err != nil {
		return false, ignoreMissing(err)
	}
	rec, err := loadSandbox(stateDir, box.Sandbox)
	if err != nil || slices.Contains(rec.Boxes, id) {
		return false, err
	}
	err = removeBox(ctx, engine, stateDir, box)
	return err == nil, err
}

// ignoreOther: what is at another engine is left for a sweep with that one.
func ignoreOther(err error) error {
	if errors.Is(err, errOther) {
		return nil
	}
	return err
}

// sweepLeft removes the left boxes of sandboxes that no program has open, if nothing
// runs in them.
func sweepLeft(ctx context.Context, engine engine.Engine, stateDir string) (removed []string, err error) {
	names, err := entries(filepath.Join(stateDir, sandboxesDir))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		rec, err := loadSandbox(stateDir, name)
		if err != nil || len(rec.Boxes) < 2 {
			errs = append(errs, err)
			continue
		}
		e, err := New(Config{Engine: engine, StateDir: stateDir, Name: name})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, e.openAll(ctx))
		before := e.open()
		errs = append(errs, e.Close()) // which gives up all but the last
		for _, b := range before {
			if _, err := os.Stat(b.dir); errors.Is(err, os.ErrNotExist) {
				removed = append(removed, b.Container)
			}
		}
	}
	return removed, errors.Join(errs...)
}

// removeState removes the ephemeral sandboxes of a state directory that none of them uses any
// more, and the directory, unless it has lasting ones, or what is not Corral's.
func removeState(ctx context.Context, engine engine.Engine, dir string) error {
	list, err := os.ReadDir(dir)
	names, nerr := entries(filepath.Join(dir, sandboxesDir))
	if err = errors.Join(err, nerr); err != nil {
		return ignoreMissing(err)
	}
	shared := slices.ContainsFunc(list, func(f os.DirEntry) bool { return !slices.Contains(ownFiles, f.Name()) })
	var mine []string
	for _, name := range names {
		if rec, err := loadSandbox(dir, name); err == nil && rec.Ephemeral {
			mine = append(mine, name)
		} else if err != nil || !rec.gone() {
			shared = true
		}
	}
	if !shared {
		return errors.Join(removeWorkspaces(ctx, engine, dir), secrets.Drop(dir, ""), os.RemoveAll(dir))
	}
	var errs []error
	for _, name := range mine {
		e, err := New(Config{Engine: engine, StateDir: dir, Name: name})
		if err == nil {
			err = errors.Join(e.Remove(ctx), e.Close())
		}
		if err == nil {
			err = os.RemoveAll(sandboxDir(dir, name))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ownFiles are what sandboxes have in a state directory.
var ownFiles = []string{sandboxesDir, boxesDir, workspacesDir, wardensDir, place.LockName}

// List returns the containers of a state directory, or of all if it is empty.
func List(ctx context.Context, engine engine.Engine, stateDir string) ([]engine.Container, error) {
	labels := map[string]string{Label: "sandbox"}
	if stateDir != "" {
		labels[labelState] = stateDir
	}
	return engine.List(ctx, labels)
}
