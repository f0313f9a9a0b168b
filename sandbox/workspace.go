package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/diskimage"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/place"
)

// A private workspace is a directory of the state directory, or a volume of an
// engine that does not see that. The volume is the engine's to make, with the
// first container that has it; the directory is there in any case, empty, and
// says that there may be one.
//
// One with a size is an image beside the directory (ID.img) that is mounted
// there. Whether it is that, and of what size, the files tell: nothing else does.
// The mount is this machine's, and not noted anywhere: a program that needs the
// workspace mounts it if it is not mounted, as after the machine was started.

const imageSuffix = ".img"

// maxSize bounds Workspace.Size: file systems do not take larger files.
const maxSize = 8 << 40

// completeSize checks what a private workspace may take.
func (c *Config) completeSize() error {
	switch c.Workspace.Medium {
	case "":
		c.Workspace.Medium = MediumDisk
	case MediumDisk, MediumMemory:
	default:
		return corral.Errorf(corral.ErrInvalid, "use disk or memory", "unknown medium %q of a workspace", c.Workspace.Medium)
	}
	switch {
	case c.Workspace.Access != AccessNone: // then it is a directory of the user's
		c.Workspace.Medium, c.Workspace.Size = MediumDisk, 0
	case c.Workspace.Size < 0:
		c.Workspace.Size = 0
	case c.Workspace.Size == 0 && c.inMemory():
		c.Workspace.Size = 512 << 20
	case c.Workspace.Size == 0:
	case c.Workspace.Size < diskimage.MinSize || c.Workspace.Size > maxSize:
		return corral.Errorf(corral.ErrInvalid, "use 16m to 8192g, or unlimited", "a workspace cannot have %d bytes (sandbox.workspaceSize)", c.Workspace.Size)
	default:
		c.Workspace.Size = diskimage.Round(c.Workspace.Size)
	}
	return nil
}

// inMemory reports whether the workspace is the container's own.
func (c *Config) inMemory() bool {
	return c.Workspace.Access == AccessNone && c.Workspace.Medium == MediumMemory
}

// hasPrivate reports whether the workspace is one that the sandbox keeps.
func (c *Config) hasPrivate() bool { return c.Workspace.Access == AccessNone && !c.inMemory() }

// checkSize says why a private workspace would not be limited as is configured.
func (c *Config) checkSize(info engine.Info) error {
	if !c.hasPrivate() || c.Workspace.Size == 0 {
		return nil
	}
	switch {
	case !info.Local:
		return c.noSize(fmt.Errorf("it is a volume of the engine at %s, which does not see this program's files", info.Address))
	case info.Rootless:
		return c.noSize(fmt.Errorf("the engine at %s is rootless, and only root can mount what limits it", info.Address))
	}
	if err := diskimage.Check(); err != nil {
		return c.noSize(err)
	}
	return nil
}

func (c *Config) noSize(why error) error {
	return corral.Errorf(corral.ErrUnavailable, "have it in memory (sandbox.workspaceMedium: memory), where it goes with its container; or run corral as root, with an engine of this machine; or leave sandbox.workspaceSize out",
		"a private workspace cannot be limited to %d bytes: %w", c.Workspace.Size, why)
}

// HostWorkspace is the directory of this machine that commands find at Workdir,
// also if it is a private one. It is empty if the engine is on another machine,
// and if the workspace is in memory.
func (e *Executor) HostWorkspace(ctx context.Context) (string, error) {
	info, err := e.engine.Info(ctx)
	if err != nil || !info.Local {
		return "", err
	}
	set := e.set.Load()
	switch {
	case set.inMemory():
		return "", nil
	case !set.hasPrivate():
		return set.Workspace.Dir, nil
	}
	e.touch()
	unlock, err := lockSandbox(ctx, e.stateDir, e.name)
	if err != nil {
		return "", err
	}
	defer unlock()
	rec, err := loadSandbox(e.stateDir, e.name)
	if err == nil {
		err = e.ensureWorkspace(ctx, set, &rec)
	}
	return workspaceDir(e.stateDir, rec.Workspace), err
}

// ensureWorkspace makes the private workspace, for the user that commands run
// as. The sandbox's lock is held.
func (e *Executor) ensureWorkspace(ctx context.Context, set *setup, rec *sandboxRecord) error {
	fresh := rec.Workspace == ""
	if fresh {
		rec.Workspace = newBoxID(e.name)
		if err := saveSandbox(e.stateDir, *rec, true); err != nil {
			return fmt.Errorf("cannot note the sandbox's workspace: %w", err)
		}
	}
	// Where earlier versions had it.
	if old := filepath.Join(e.dir, "workspace"); fresh {
		if err := os.MkdirAll(filepath.Join(e.stateDir, workspacesDir), 0o700); err != nil {
			return fmt.Errorf("cannot make the directory of workspaces: %w", err)
		}
		if err := os.Rename(old, workspaceDir(e.stateDir, rec.Workspace)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot move the sandbox's workspace: %w", err)
		}
	}
	return set.makePrivate(ctx, rec.Workspace)
}

// makePrivate makes a private workspace, unless it is there: then it stays as it
// is, which checkPrivate looks at.
func (s *setup) makePrivate(ctx context.Context, id string) error {
	dir, image := workspaceDir(s.StateDir, id), workspaceImage(s.StateDir, id)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of workspaces: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cannot make the sandbox's workspace: %w", err)
	}
	has, err := imageSize(s.StateDir, id)
	if err != nil {
		return err
	}
	if has == 0 && s.Workspace.Size > 0 {
		empty, err := isEmpty(dir)
		if err != nil {
			return fmt.Errorf("cannot look at the sandbox's workspace: %w", err)
		}
		if empty {
			if err := diskimage.Make(ctx, image, s.Workspace.Size); err != nil {
				return s.noSize(err)
			}
			has = s.Workspace.Size
			reached(stepImaged)
		}
	}
	if has > 0 {
		if err := diskimage.Mount(image, dir); err != nil {
			return corral.Errorf(corral.ErrUnavailable, "run corral as root; a workspace that is damaged goes with its sandbox: corral sandbox rm", "cannot mount the sandbox's workspace: %w", err)
		}
		reached(stepMounted)
	}
	return give(dir, userOf(s.Isolation.User))
}

// checkPrivate refuses a private workspace that may take more than is configured
// now: it keeps the size that it was made with.
func (s *setup) checkPrivate(id string) error {
	has, err := imageSize(s.StateDir, id)
	if err != nil || s.Workspace.Size == 0 || has == s.Workspace.Size {
		return err
	}
	if has > 0 && has < s.Workspace.Size {
		s.Log.Warn("a private workspace keeps the size that it was made with; it is made anew with its sandbox (corral sandbox rm)", "name", s.Name, "bytes", has, "configured", s.Workspace.Size)
		return nil
	}
	was := "without a limit"
	if has > 0 {
		was = fmt.Sprintf("with %d", has)
	}
	return corral.Errorf(corral.ErrUnavailable, "copy out what is needed (corral sandbox cp), then: corral sandbox rm "+s.Name+"; or undo the change of sandbox.workspaceSize",
		"the workspace of the sandbox %s was made %s, and cannot be limited to %d bytes", s.Name, was, s.Workspace.Size)
}

func workspaceImage(state, id string) string { return workspaceDir(state, id) + imageSuffix }

// imageSize is the size of a private workspace that was made with one; 0 if it
// was not, or is not there.
func imageSize(state, id string) (int64, error) {
	info, err := os.Stat(workspaceImage(state, id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot look at the sandbox's workspace: %w", err)
	}
	return info.Size(), nil
}

func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// workspaceVolume is the name of a private workspace's volume.
func workspaceVolume(id string) string { return "corral-workspace-" + id }

// removeWorkspace removes a private workspace that no container has any more.
// What is not there is no error.
func removeWorkspace(ctx context.Context, engine engine.Engine, state, id string) error {
	if err := removeVolume(ctx, engine, id); err != nil {
		return err
	}
	if err := removeDirectory(state, id); err != nil {
		return fmt.Errorf("cannot remove the sandbox's workspace: %w", err)
	}
	return nil
}

// removeVolume asks also engines that have seen the state directory all along:
// whether one did when the workspace was made is not noted.
func removeVolume(ctx context.Context, eng engine.Engine, id string) error {
	if e, ok := eng.(engine.VolumeEngine); ok {
		return e.RemoveVolume(ctx, workspaceVolume(id))
	}
	return nil
}

// removeDirectory removes a private workspace from this machine: the mount,
// the image and the directory.
func removeDirectory(state, id string) error {
	dir, image := workspaceDir(state, id), workspaceImage(state, id)
	if err := diskimage.Unmount(dir); err != nil {
		return err
	}
	for _, file := range []string{image, diskimage.Partial(image)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return removeTree(dir)
}

// workspaceIDs are the private workspaces that have at least one file.
func workspaceIDs(state string) ([]string, error) {
	list, err := os.ReadDir(filepath.Join(state, workspacesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, e := range list {
		id, image := strings.CutSuffix(strings.TrimSuffix(e.Name(), diskimage.Partial("")), imageSuffix)
		if (image || e.IsDir()) && !strings.HasPrefix(id, ".") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// removeWorkspaces removes all private workspaces of a state directory that is
// about to go.
func removeWorkspaces(ctx context.Context, engine engine.Engine, state string) error {
	ids, err := workspaceIDs(state)
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, removeVolume(ctx, engine, id), removeDirectory(state, id))
	}
	return errors.Join(errs...)
}

// sweepWorkspaces removes private workspaces to which nothing refers. What
// refers to one is there before it.
func sweepWorkspaces(ctx context.Context, engine engine.Engine, stateDir string) error {
	ids, err := workspaceIDs(stateDir)
	if err != nil || len(ids) == 0 {
		return err
	}
	known := map[string]bool{}
	sandboxes, err := entries(filepath.Join(stateDir, sandboxesDir))
	if err != nil {
		return err
	}
	for _, name := range sandboxes {
		rec, err := loadSandbox(stateDir, name)
		if err != nil {
			return err // then it is not known to what it refers
		}
		known[rec.Workspace] = true
	}
	boxes, err := entries(filepath.Join(stateDir, boxesDir))
	if err != nil {
		return err
	}
	for _, id := range boxes {
		box, err := loadBox(stateDir, id)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		known[box.Workspace] = true
	}
	var errs []error
	for _, id := range ids {
		if !known[id] {
			errs = append(errs, removeWorkspace(ctx, engine, stateDir, id))
		}
	}
	return errors.Join(errs...)
}

// sweepImages removes the workspaces, with everything else, of ephemeral
// sandboxes whose program was killed before there was a container to find them
// by: a mount stays, and keeps its directory from being removed.
func sweepImages(ctx context.Context, engine engine.Engine, stateDir string) error {
	if os.Geteuid() != 0 {
		return nil // none is ours
	}
	mounts, err := diskimage.Mounts()
	errs := []error{err}
	for _, m := range mounts {
		state := filepath.Dir(filepath.Dir(m.Dir))
		switch {
		case m.File != m.Dir+imageSuffix || filepath.Base(filepath.Dir(m.Dir)) != workspacesDir: // not ours
		case m.Deleted:
			errs = append(errs, removeDirectory(state, filepath.Base(m.Dir)))
		case state != stateDir && place.Marked(state) && !place.InUse(state):
			errs = append(errs, removeState(ctx, engine, state))
		}
	}
	return errors.Join(errs...)
}
