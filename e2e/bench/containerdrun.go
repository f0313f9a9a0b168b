//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/sandbox/containerd"
)

// containerdRun runs each job in a container made for it, by containerd alone:
// what a container costs where there is no Docker in between. Removing it is not
// measured.
type containerdRun struct {
	c     *client.Client
	image client.Image
}

// newContainerdRun connects to containerd, which gets the image if it does not
// have it.
func newContainerdRun(ctx context.Context, address, image string) (_ *containerdRun, err error) {
	engine, err := containerd.New(containerd.Options{Address: address})
	if err != nil {
		return nil, err
	}
	store := images.Store{Engine: engine.Images()}
	_, err = store.Ensure(ctx, image, nil)
	if err = errors.Join(err, engine.Close()); err != nil {
		return nil, err
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, err
	}
	r := &containerdRun{}
	if r.c, err = client.New(engine.Address(), client.WithDefaultNamespace(containerd.DefaultNamespace)); err != nil {
		return nil, fmt.Errorf("cannot use containerd: %w", err)
	}
	if r.image, err = r.c.GetImage(ctx, reference.TagNameOnly(named).String()); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot use the image %s of containerd: %w", image, err), r.c.Close())
	}
	return r, nil
}

func (r *containerdRun) Close() error { return r.c.Close() }

func (r *containerdRun) run(ctx context.Context, j job) (took time.Duration, err error) {
	// Not to be interrupted: what was made has to be removed.
	cleanup := context.WithoutCancel(ctx)
	id := "corral-bench-" + corral.NewID()
	start := time.Now()
	made, err := r.c.NewContainer(ctx, id, client.WithNewSnapshot(id, r.image), client.WithContainerLabels(map[string]string{"corral": "bench"}),
		client.WithNewSpec(oci.WithImageConfig(r.image), oci.WithProcessArgs("/bin/sh", "-lc", j.shell), oci.WithUIDGID(boxID, boxID)))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, made.Delete(cleanup, client.WithSnapshotCleanup)) }()
	task, err := made.NewTask(ctx, cio.NullIO)
	if err != nil {
		return 0, err
	}
	defer func() {
		if _, derr := task.Delete(cleanup, client.WithProcessKill); derr != nil && !errdefs.IsNotFound(derr) {
			err = errors.Join(err, derr)
		}
	}()
	ended, err := task.Wait(ctx)
	if err == nil {
		err = task.Start(ctx)
	}
	if err != nil {
		return 0, err
	}
	status := <-ended
	took = time.Since(start)
	code, _, err := status.Result()
	if err == nil && code != 0 {
		err = fmt.Errorf("%q: exit code %d", j.shell, code)
	}
	return took, err
}
