package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/diskimage"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/sandbox/place"
	"github.com/corral-exec/corral/sandbox/private"
	"github.com/corral-exec/corral/sandbox/users"
)

// A private workspace is a directory of the state directory, or a volume of an
// engine that does not see that. The volume is the engine's to make, with the
// first container that has it; the directory is there in any case, empty, and
// says that there may be one. See package private.

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
		rec.Workspace, rec.Ephemeral = newBoxID(e.name), set.Ephemeral
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
	return set.makePrivate(ctx, workspaceDir(e.stateDir, rec.Workspace))
}

// makePrivate makes the directory of a private workspace, or of a volume, unless it is
// there: then it stays as it is, which checkPrivate looks at.
func (s *setup) makePrivate(ctx context.Context, dir string) error {
	has, empty, err := private.Make(dir)
	if err != nil {
		return fmt.Errorf("cannot make the sandbox's workspace: %w", err)
	}
	if has == 0 && empty && s.Workspace.Size > 0 {
		if err := diskimage.Make(ctx, private.Image(dir), s.Workspace.Size); err != nil {
			return s.noSize(err)
		}
		has = s.Workspace.Size
		reached(stepImaged)
	}
	if has > 0 {
		if err := diskimage.Mount(private.Image(dir), dir); err != nil {
			return corral.Errorf(corral.ErrUnavailable, "run corral as root; a workspace that is damaged goes with its sandbox: corral sandbox rm", "cannot mount the sandbox's workspace: %w", err)
		}
		reached(stepMounted)
	}
	return give(dir, users.Parse(s.Isolation.User))
}

// volumes are being made, by their directories.
var volumes turn.Keyed[string]

func (s *setup) makeVolume(ctx context.Context, info engine.Info, dir string) error {
	if !info.Local {
		return corral.Errorf(errors.ErrUnsupported, "use an engine of this machine, or no volumes", "a volume is a directory of this machine, which the engine at %s does not see", info.Address)
	}
	done, err := volumes.Take(ctx, dir)
	if err != nil {
		return err
	}
	defer done()
	return s.makePrivate(ctx, dir)
}

// Volume makes a directory that is mounted as a volume, unless it is there, and returns its
// files, as the user of sandboxes like this one may use them. Its size is Workspace.Size.
func (c Config) Volume(ctx context.Context, dir string) (files.FS, error) {
	info, err := c.Engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	c.Mounts = Mounts{} // which have no part in it
	s, err := newSetup(c)
	if err != nil {
		return nil, err
	}
	if err := s.makeVolume(ctx, info, dir); err != nil {
		return nil, err
	}
	d, err := s.private(dir, info)
	d.Root = "/"
	return d, err
}

// checkPrivate refuses a private workspace that may take more than is configured
// now: it keeps the size that it was made with.
func (s *setup) checkPrivate(id string) error {
	has, err := private.Size(workspaceDir(s.StateDir, id))
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

// workspaceVolume is the name of a private workspace's volume.
func workspaceVolume(id string) string { return "corral-workspace-" + id }

// removeWorkspace removes a private workspace that no container has any more.
// What is not there is no error.
func removeWorkspace(ctx context.Context, engine engine.Engine, state, id string) error {
	if err := removeVolume(ctx, engine, id); err != nil {
		return err
	}
	if err := private.Remove(workspaceDir(state, id)); err != nil {
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

// workspaceIDs are the private workspaces that have at least one file.
func workspaceIDs(state string) ([]string, error) {
	return private.Names(filepath.Join(state, workspacesDir))
}

// removeWorkspaces removes all private workspaces of a state directory that is
// about to go.
func removeWorkspaces(ctx context.Context, engine engine.Engine, state string) error {
	ids, err := workspaceIDs(state)
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, removeVolume(ctx, engine, id), private.Remove(workspaceDir(state, id)))
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
		case m.File != private.Image(m.Dir) || filepath.Base(filepath.Dir(m.Dir)) != workspacesDir: // not ours
		case m.Deleted:
			errs = append(errs, private.Remove(m.Dir))
		case state != stateDir && place.Marked(state) && !place.InUse(state):
			errs = append(errs, removeState(ctx, engine, state))
		}
	}
	return errors.Join(errs...)
}
