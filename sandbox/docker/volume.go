package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// fillTarget is where a volume is in the container that fills it.
const fillTarget = "/corral-volume"

// Fill implements engine.Filler. The file is copied through a container that is never
// started. A volume that is there may be one that a killed program did not fill, so it
// is looked at, once.
func (e *Engine) Fill(ctx context.Context, name, image, file string, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, longCall)
	defer cancel()
	if _, seen := e.filled.Load(name); seen {
		if _, err := e.c.VolumeInspect(ctx, name); err == nil {
			return nil
		} else if !errdefs.IsNotFound(err) {
			return e.fail("look at the volume "+name, err)
		}
	}
	archive, err := archived(file, content)
	if err != nil {
		return err
	}
	for {
		err := e.fill(ctx, name, image, file, int64(len(content)), archive)
		switch {
		case err == nil:
			e.filled.Store(name, true)
			return nil
		case errors.Is(err, engine.ErrNoImage):
			return err
		case (errdefs.IsNotFound(err) || errdefs.IsConflict(err)) && wait(ctx) == nil: // another has filled it
			continue
		}
		return e.fail("fill the volume "+name, err)
	}
}

// fill makes a volume, unless it exists, and puts the file into it, unless it is there in
// full. All who do so use one container, in which the engine copies one file at a time.
// The error is not found or conflict if another removes it meanwhile.
func (e *Engine) fill(ctx context.Context, name, image, file string, size int64, archive []byte) (err error) {
	id := name + "-fill"
	_, err = e.c.ContainerCreate(ctx,
		&container.Config{Image: image, Entrypoint: []string{"/"}, Labels: map[string]string{sandbox.Label: "fill"}, NetworkDisabled: true},
		&container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: name, Target: fillTarget, VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{sandbox.Label: "warden"}},
		}}}, nil, nil, id)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w: %s", engine.ErrNoImage, image)
	}
	if err != nil && !errdefs.IsConflict(err) {
		return err
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), id)) }()
	if there, err := e.c.ContainerStatPath(ctx, id, path.Join(fillTarget, file)); err == nil && there.Size == size {
		return nil
	} else if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return e.c.CopyToContainer(ctx, id, fillTarget, bytes.NewReader(archive), container.CopyToContainerOptions{})
}

// ReadFile implements engine.FileReader.
func (e *Engine) ReadFile(ctx context.Context, id, name string, most int64) (_ []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	archive, _, err := e.c.CopyFromContainer(ctx, id, name)
	if errdefs.IsNotFound(err) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, e.fail("read "+name+" of the container "+id, err)
	}
	defer archive.Close() // it was only read
	files := tar.NewReader(archive)
	h, err := files.Next()
	if err == nil && (h.Typeflag != tar.TypeReg || h.Size > most) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	var content []byte
	if err == nil {
		content, err = io.ReadAll(files)
	}
	return content, e.fail("read "+name+" of the container "+id, err)
}

// archived is an executable file as an archive.
func archived(name string, content []byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o555, Size: int64(len(content)), Format: tar.FormatUSTAR})
	if err == nil {
		_, err = w.Write(content)
	}
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// boundVolumes has the volumes that the image declares be in memory. The engine would make
// them on its disk, where they take what is written, whatever the sandbox may have.
func (e *Engine) boundVolumes(ctx context.Context, s engine.Spec, host *container.HostConfig) error {
	if !host.ReadonlyRootfs { // else nothing else on the disk is bounded either
		return nil
	}
	image, err := e.c.ImageInspect(ctx, s.Image)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w: %s", engine.ErrNoImage, s.Image)
	}
	if err != nil || image.Config == nil {
		return e.fail("look at the image "+s.Image, err)
	}
	for target := range image.Config.Volumes {
		target = path.Clean(target)
		_, taken := host.Tmpfs[target]
		if !taken && !slices.ContainsFunc(host.Mounts, func(m mount.Mount) bool { return m.Target == target }) {
			host.Tmpfs[target] = strings.Join(engine.Tmpfs{Size: volumeSize, Mode: 0o1777, Exec: true}.Options(s.User), ",")
		}
	}
	return nil
}

// volumeSize is that of a volume that an image declares, in bytes.
const volumeSize = 64 << 20

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
