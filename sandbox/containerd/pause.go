//go:build linux

package containerd

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"

	"github.com/corral-exec/corral/sandbox/engine"
)

// Pause implements engine.PauseEngine.
func (e *Engine) Pause(ctx context.Context, id string) error {
	return e.freeze(ctx, id, client.Paused, "pause", client.Task.Pause)
}

// Resume implements engine.PauseEngine.
func (e *Engine) Resume(ctx context.Context, id string) error {
	return e.freeze(ctx, id, client.Running, "resume", client.Task.Resume)
}

// freeze has a container be as wanted, which it may be already.
func (e *Engine) freeze(ctx context.Context, name string, wanted client.ProcessStatus, what string, do func(client.Task, context.Context) error) error {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	none := func() error { return fmt.Errorf("%w: %s", engine.ErrNoContainer, name) }
	c, err := e.c.LoadContainer(ctx, identifier(name))
	if errdefs.IsNotFound(err) {
		return none()
	}
	if err != nil {
		return e.fail(what+" the container "+name, err)
	}
	task, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return none()
	}
	if err != nil {
		return e.fail(what+" the container "+name, err)
	}
	st, err := task.Status(ctx)
	switch {
	case err == nil && st.Status == wanted:
		return nil
	case err == nil && st.Status == client.Stopped:
		return none()
	case err == nil:
		err = do(task, ctx)
	}
	if err != nil {
		return e.fail(what+" the container "+name, err)
	}
	return nil
}
