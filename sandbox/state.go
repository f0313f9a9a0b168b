package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/corral-exec/corral"
)

// workspace is the directory of this machine that is /workspace.
func (e *Executor) workspace() string {
	if e.cfg.WorkspaceAccess == AccessNone {
		return filepath.Join(e.stateDir, "workspace")
	}
	return e.cfg.Workspace
}

// HostWorkspace is the directory of this machine that commands find at Workdir,
// also if it is a private one. It is empty if the engine is on another machine.
func (e *Executor) HostWorkspace(ctx context.Context) (string, error) {
	info, err := e.cfg.Engine.Info(ctx)
	if err != nil || !info.Local {
		return "", err
	}
	return e.workspace(), nil
}

// makeWorkspace makes the private workspace, for the user that commands run as.
func (e *Executor) makeWorkspace() error {
	dir := e.workspace()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the sandbox's workspace: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil // commands run as us
	}
	uid, gid := splitUser(e.cfg.User)
	if err := os.Chown(dir, uid, gid); err != nil {
		return fmt.Errorf("cannot give the sandbox its workspace: %w", err)
	}
	return nil
}

func splitUser(user string) (uid, gid int) {
	u, g, _ := strings.Cut(user, ":") // checked by checkUser
	uid, _ = strconv.Atoi(u)
	gid, _ = strconv.Atoi(g)
	return uid, gid
}

// lockName is the file in a state directory that its owners lock.
const lockName = "owner.lock"

// sweepOnce removes, before this life's first container, those whose owner
// died and that no later life will use.
func (e *Executor) sweepOnce(ctx context.Context) error {
	e.mu.Lock()
	done := e.swept
	e.mu.Unlock()
	if done {
		return nil
	}
	if _, err := Sweep(ctx, e.cfg.Engine, e.cfg.StateDir); err != nil {
		return err
	}
	e.mu.Lock()
	e.swept = true
	e.mu.Unlock()
	return nil
}

// Sweep removes containers that nobody will use again: ephemeral ones whose
// owner is dead, with its state directory, and those of stateDir of which the
// sandbox's directory is gone. It returns the names of what it removed.
func Sweep(ctx context.Context, engine Engine, stateDir string) ([]string, error) {
	list, err := engine.List(ctx, map[string]string{Label: "sandbox"})
	if err != nil {
		return nil, err
	}
	var removed []string
	errs := &multierror.Error{ErrorFormat: oneLine}
	for _, c := range list {
		dir := c.Labels[labelState]
		ephemeral := c.Labels[labelEphemeral] == "1"
		switch {
		case dir == "" || !filepath.IsAbs(dir):
			continue
		case ephemeral:
			if ownerLives(dir) {
				continue
			}
		case dir != stateDir:
			continue
		default:
			if _, err := os.Stat(filepath.Join(dir, "sandboxes", c.Labels[labelName])); !errors.Is(err, os.ErrNotExist) {
				continue
			}
		}
		if err := engine.Remove(ctx, c.ID); err != nil {
			errs = multierror.Append(errs, err)
			continue
		}
		removed = append(removed, c.Name)
		if ephemeral && marked(dir) {
			if err := os.RemoveAll(dir); err != nil {
				errs = multierror.Append(errs, err)
			}
		}
	}
	return removed, errs.ErrorOrNil()
}

// oneLine lists errors in a line.
func oneLine(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// marked tells whether a directory is the state directory of an ephemeral
// sandbox: a label alone is not reason enough to delete a directory.
func marked(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, lockName))
	return err == nil && info.Mode().IsRegular()
}

// List returns the sandboxes of a state directory, or of all if it is empty.
func List(ctx context.Context, engine Engine, stateDir string) ([]Container, error) {
	labels := map[string]string{Label: "sandbox"}
	if stateDir != "" {
		labels[labelState] = stateDir
	}
	return engine.List(ctx, labels)
}

// ownerWarning says when files will not have the owner that one would expect.
func (e *Executor) ownerWarning() []string {
	uid, ok := ownerOf(e.cfg.Workspace)
	if user, _ := splitUser(e.cfg.User); ok && uid != user && e.cfg.WorkspaceAccess == AccessReadWrite {
		return []string{fmt.Sprintf("The workspace %s belongs to user %d, and commands run as user %d: they may not be able to write to it, unless it is given to them (chown -R %s %s).", e.cfg.Workspace, uid, user, e.cfg.User, e.cfg.Workspace)}
	}
	return nil
}

// maxWarden bounds the program that is sent to an engine, in bytes.
const maxWarden = 64 << 20

func readWarden(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxWarden {
		return nil, corral.Errorf(corral.ErrInvalid, "", "%s has %d bytes; that is no warden", file, info.Size())
	}
	return os.ReadFile(file)
}
