package docker

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// again is how long to wait before looking once more.
const again = 50 * time.Millisecond

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, longCall)
	defer cancel()
	fail := func(err error) error { return e.fail("remove the container "+id, err) }
	if err := e.end(ctx, id); err != nil {
		return fail(err)
	}
	for {
		err := e.c.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err): // another program removes it: until it is gone
			if wait(ctx) == nil {
				continue
			}
		}
		return fail(err)
	}
}

// end kills a container and waits until the engine has taken note of its end.
// An engine that is asked to remove one that runs kills it as well, but waits ten
// seconds for the note, which are not enough on a machine that is busy enough:
// Docker then finds no process any more, forgets the container, and never ends
// the one beside it (containerd-shim), which is left for good.
// Of gVisor it cannot kill what is frozen in less, and leaves the same.
func (e *Engine) end(ctx context.Context, id string) error {
	for killed := false; ; killed = true {
		c, err := e.inspect(ctx, id)
		if err != nil || !c.State.Running {
			return ctx.Err() // it does not run, or is gone; else its removal says what is wrong
		}
		if killed {
			err = wait(ctx)
		} else {
			if c.State.Paused {
				err = e.c.ContainerUnpause(ctx, id)
			}
			err = errors.Join(err, e.c.ContainerKill(ctx, id, "KILL"))
		}
		if err != nil {
			return ctx.Err() // as above
		}
	}
}

func wait(ctx context.Context) error {
	select {
	case <-time.After(again):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
