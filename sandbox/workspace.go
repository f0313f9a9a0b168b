package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// A private workspace is a directory of the state directory, or a volume of an
// engine that does not see that. The volume is the engine's to make, with the
// first container that has it; the directory is there in any case, empty, and
// says that there may be one.

// workspaceVolume is the name of a private workspace's volume.
func workspaceVolume(id string) string { return "corral-workspace-" + id }

// removeWorkspace removes a private workspace that no container has any more.
// What is not there is no error.
func removeWorkspace(ctx context.Context, engine Engine, state, id string) error {
	if err := removeVolume(ctx, engine, id); err != nil {
		return err
	}
	if err := removeTree(workspaceDir(state, id)); err != nil {
		return fmt.Errorf("cannot remove the sandbox's workspace: %w", err)
	}
	return nil
}

// removeVolume asks also engines that have seen the state directory all along:
// whether one did when the workspace was made is not noted.
func removeVolume(ctx context.Context, engine Engine, id string) error {
	if e, ok := engine.(VolumeEngine); ok {
		return e.RemoveVolume(ctx, workspaceVolume(id))
	}
	return nil
}

// removeVolumes removes the volumes of all private workspaces of a state
// directory that is about to go.
func removeVolumes(ctx context.Context, engine Engine, state string) error {
	ids, err := entries(filepath.Join(state, workspacesDir))
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, removeVolume(ctx, engine, id))
	}
	return errors.Join(errs...)
}
