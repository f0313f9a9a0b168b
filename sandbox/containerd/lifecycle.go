//go:build linux

package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	apparmorprofile "github.com/containerd/containerd/v2/contrib/apparmor"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/apparmor"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"

	"github.com/corral-exec/corral/sandbox/engine"
)

// halfMade is how long containerd keeps what is not yet a container, if its
// maker dies.
const halfMade = 10 * time.Minute

// apparmorName is the profile of all containers: Docker's, under a name of ours.
const apparmorName = "corral-default"

// Create implements engine.Engine. The ID is the name, unless containerd takes
// no such name.
func (e *Engine) Create(ctx context.Context, s engine.Spec) (_ string, err error) {
	ctx, cancel := e.call(ctx, longCall)
	defer cancel()
	fail := func(err error) (string, error) { return "", e.fail("make the container "+s.Name, err) }
	id := identifier(s.Name)

	img, err := e.image(ctx, s.Image)
	if errdefs.IsNotFound(err) {
		return "", fmt.Errorf("%w: %s", engine.ErrNoImage, s.Image)
	}
	if err != nil {
		return fail(err)
	}
	h := thisHost()
	if apparmor.HostSupports() {
		if err := apparmorprofile.LoadDefaultProfile(apparmorName); err != nil {
			return fail(err)
		}
		h.apparmor = apparmorName
	}
	config, err := img.Spec(ctx)
	if err != nil {
		return fail(err)
	}
	dir := filepath.Join(e.dir, "containers", id)
	spec, err := ociSpec(s, id, e.cgroup(id), dir, config.Config.Env, h)
	if err != nil {
		return fail(err)
	}
	shim, opts, err := e.runtime(s.Runtime, spec.Process.User)
	if err != nil {
		return fail(err)
	}
	runtimeOptions := any(opts)
	if opts == nil {
		runtimeOptions = nil
	}

	// Until the container is there and refers to it, the snapshot is the
	// lease's: neither collected as garbage, nor left if we die.
	ctx, done, err := e.c.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(halfMade))
	if err != nil {
		return fail(err)
	}
	defer func() {
		if derr := done(context.WithoutCancel(ctx)); derr != nil && err == nil {
			_, err = fail(derr)
		}
	}()
	key, err := e.rootfs(ctx, img, id)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			rerr := e.c.SnapshotService(snapshotter).Remove(context.WithoutCancel(ctx), key)
			if !errdefs.IsNotFound(rerr) {
				err = errors.Join(err, rerr)
			}
		}
	}()
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelDir], labels[labelName] = dir, s.Name
	if s.Stdio {
		labels[labelStdio] = "1"
	}
	_, err = e.c.NewContainer(ctx, id, client.WithSnapshotter(snapshotter), client.WithSnapshot(key), client.WithImageName(img.Name()),
		client.WithContainerLabels(labels), client.WithRuntime(shim, runtimeOptions), client.WithSpec(spec))
	if errdefs.IsAlreadyExists(err) {
		return "", fmt.Errorf("%w: %s", engine.ErrNameTaken, s.Name)
	}
	if err != nil {
		return fail(err)
	}
	return id, nil
}

// rootfs makes a snapshot of the image: one that can be written to, since the
// runtime makes what is mounted upon before it makes the root read-only.
func (e *Engine) rootfs(ctx context.Context, img client.Image, id string) (key string, err error) {
	unpacked, err := img.IsUnpacked(ctx, snapshotter)
	if err == nil && !unpacked { // brought in by others
		err = img.Unpack(ctx, snapshotter)
	}
	if err != nil {
		return "", err
	}
	layers, err := img.RootFS(ctx)
	if err != nil {
		return "", err
	}
	// Not the ID alone: a snapshot whose container was never made is still
	// there when the next of that name is.
	key = id + "-" + rand.Text()[:10]
	_, err = e.c.SnapshotService(snapshotter).Prepare(ctx, key, identity.ChainID(layers).String())
	return key, err
}

// Start implements engine.Engine.
func (e *Engine) Start(ctx context.Context, id string) (err error) {
	ctx, cancel := e.call(ctx, longCall)
	defer cancel()
	id = identifier(id)
	c, err := e.container(ctx, id)
	if err != nil {
		return err
	}
	fail := func(err error) error { return e.fail("start the container "+id, err) }
	// One that ran and has ended is started anew.
	if err := e.removeTask(ctx, id, false); err != nil {
		return fail(err)
	}
	p, err := makeFiles(c)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	loaded, err := e.c.LoadContainer(ctx, id)
	if err != nil {
		return fail(err)
	}
	made, err := loaded.NewTask(ctx, func(string) (cio.IO, error) { return p, nil })
	if err != nil {
		return fail(err)
	}
	if err := made.Start(ctx); err != nil {
		return errors.Join(fail(err), e.removeTask(context.WithoutCancel(ctx), id, true))
	}
	return nil
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, id string) error {
	ctx, cancel := e.call(ctx, longCall)
	defer cancel()
	id = identifier(id)
	for {
		err := e.remove(ctx, id)
		switch {
		case err == nil:
			return nil
		case errdefs.IsFailedPrecondition(err), errdefs.IsNotFound(err), errdefs.IsAlreadyExists(err), shimEnded(err):
			// Another caller removes it, too, or has just started it: until
			// it is gone.
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
			}
		}
		return e.fail("remove the container "+id, err)
	}
}

// shimEnded says that a container's shim ended while containerd asked it.
// containerd removes the container's task then; it has no code for the error.
func shimEnded(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "ttrpc: closed")
}

func (e *Engine) remove(ctx context.Context, id string) error {
	c, err := e.container(ctx, id)
	if errors.Is(err, engine.ErrNoContainer) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := e.removeTask(ctx, id, true); err != nil {
		return err
	}
	// The record goes last: what is before it is found again through it.
	if err := removeFiles(c); err != nil {
		return err
	}
	if c.SnapshotKey != "" {
		err := e.c.SnapshotService(c.Snapshotter).Remove(ctx, c.SnapshotKey)
		if err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	return e.c.ContainerService().Delete(ctx, id)
}

// removeTask removes what runs or has run in a container. What runs is killed
// with kill, and otherwise an error.
func (e *Engine) removeTask(ctx context.Context, id string, kill bool) error {
	service := e.c.TaskService()
	if kill {
		err := e.kill(ctx, id)
		switch {
		case err == nil, errdefs.IsNotFound(err), errdefs.IsFailedPrecondition(err): // there is none that runs
		default:
			if kerr := e.killRefused(ctx, id); kerr != nil {
				return errors.Join(kerr, err)
			}
		}
	}
	_, err := service.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if err = native(err); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}

// kill kills what runs in a container, and waits for the end of it.
func (e *Engine) kill(ctx context.Context, id string) error {
	_, err := e.c.TaskService().Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(syscall.SIGKILL), All: true})
	if err == nil {
		_, err = e.c.TaskService().Wait(ctx, &tasks.WaitRequest{ContainerID: id})
	}
	return native(err)
}

// killRefused kills what gVisor refuses to signal: what is frozen, and the first process
// of a container that was made and not started, which has no other process. It refuses as
// well to signal what has ended, and then there is nothing to kill.
func (e *Engine) killRefused(ctx context.Context, id string) error {
	r, err := e.c.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
	if err != nil {
		return native(err)
	}
	switch {
	case r.Process.Status == task.Status_STOPPED:
		return nil
	case r.Process.Status == task.Status_PAUSED:
		if _, err := e.c.TaskService().Resume(ctx, &tasks.ResumeTaskRequest{ContainerID: id}); err != nil {
			return native(err)
		}
		return e.kill(ctx, id)
	case r.Process.Status != task.Status_CREATED || r.Process.Pid <= 1:
		return fmt.Errorf("its first process is %v", r.Process.Status)
	}
	if err := syscall.Kill(int(r.Process.Pid), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	_, err = e.c.TaskService().Wait(ctx, &tasks.WaitRequest{ContainerID: id})
	return native(err)
}

// image finds an image by its name or ID.
func (e *Engine) image(ctx context.Context, ref string) (client.Image, error) {
	found, err := e.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return client.NewImage(e.c, found[0]), nil
}
