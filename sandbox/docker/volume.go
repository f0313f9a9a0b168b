package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// fillTarget is where a volume is in the container that fills it.
const fillTarget = "/corral-volume"

// Fill implements engine.Filler. The file is copied through a container that
// is never started.
func (e *Engine) Fill(ctx context.Context, name, image, file string, content []byte) (err error) {
	ctx, cancel := context.WithTimeout(ctx, longCall)
	defer cancel()
	if _, err := e.c.VolumeInspect(ctx, name); err == nil {
		return nil
	} else if !errdefs.IsNotFound(err) {
		return e.fail("look at the volume "+name, err)
	}
	if _, err := e.c.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: map[string]string{sandbox.Label: "warden"}}); err != nil {
		return e.fail("make the volume "+name, err)
	}
	defer func() {
		if err != nil { // half filled: not to be found by the next
			err = errors.Join(err, e.c.VolumeRemove(context.WithoutCancel(ctx), name, true))
		}
	}()
	made, err := e.c.ContainerCreate(ctx,
		&container.Config{Image: image, Entrypoint: []string{"/"}, Labels: map[string]string{sandbox.Label: "fill"}, NetworkDisabled: true},
		&container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: fillTarget}}},
		nil, nil, "")
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w: %s", engine.ErrNoImage, image)
	}
	if err != nil {
		return e.fail("make a container to fill the volume "+name, err)
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), made.ID)) }()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o555, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return e.fail("fill the volume "+name, e.c.CopyToContainer(ctx, made.ID, fillTarget, &b, container.CopyToContainerOptions{}))
}

// RemoveVolume implements engine.VolumeEngine.
func (e *Engine) RemoveVolume(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, longCall)
	defer cancel()
	err := e.c.VolumeRemove(ctx, name, false)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return e.fail("remove the volume "+name, err)
}
