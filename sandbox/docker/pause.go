package docker

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/corral-exec/corral/sandbox/engine"
)

// Pause implements engine.PauseEngine.
func (e *Engine) Pause(ctx context.Context, id string) error {
	return e.freeze(ctx, id, true, "pause", e.c.ContainerPause)
}

// Resume implements engine.PauseEngine.
func (e *Engine) Resume(ctx context.Context, id string) error {
	return e.freeze(ctx, id, false, "resume", e.c.ContainerUnpause)
}

// freeze has a container be as wanted. The engine's refusal does not say whether it is so
// already, so that it is looked at.
func (e *Engine) freeze(ctx context.Context, id string, wanted bool, what string, do func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	err := do(ctx, id)
	if err == nil {
		return nil
	}
	c, ierr := e.inspect(ctx, id)
	switch {
	case errdefs.IsNotFound(ierr), ierr == nil && !c.State.Running:
		return fmt.Errorf("%w: %s", engine.ErrNoContainer, id)
	case ierr == nil && c.State.Paused == wanted:
		return nil
	}
	return e.fail(what+" the container "+id, err)
}
