package testdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// Labels of containers; see wardenLock.
const (
	label      = "corral"
	labelState = "corral.state"
)

// others remove the containers of engines that this package knows nothing of.
var others struct {
	sync.Mutex
	remove []func(dir string) error
}

// AlsoRemove has the containers of a further engine removed with a directory:
// those that keep their state in it.
func AlsoRemove(containers func(dir string) error) {
	others.Lock()
	defer others.Unlock()
	others.remove = append(others.remove, containers)
}

func otherContainers() []func(dir string) error {
	others.Lock()
	defer others.Unlock()
	return slices.Clone(others.remove)
}

// engineLimit bounds what an engine may take.
const engineLimit = time.Minute

// removeOrphans removes the containers of directories in tmp that are gone: those that the
// engine was still making when their directory was removed.
func removeOrphans(tmp string) error {
	tmp, err := filepath.EvalSymlinks(tmp)
	if err != nil {
		return err
	}
	return removeContainers(func(c container.Summary) bool {
		below, err := filepath.Rel(tmp, c.Labels[labelState])
		if err != nil || !strings.HasPrefix(below, prefix) {
			return false
		}
		dir, _, _ := strings.Cut(below, "/")
		_, err = os.Lstat(filepath.Join(tmp, dir))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// removeContainers removes some of Corral's containers. Where no engine answers there
// are none.
func removeContainers(which func(container.Summary) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
	defer cancel()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if client.IsErrConnectionFailed(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot list containers: %w", err)
	}
	var errs []error
	for _, found := range list {
		if !which(found) {
			continue
		}
		err := c.ContainerRemove(ctx, found.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		for errdefs.IsConflict(err) && ctx.Err() == nil { // another is removing it
			time.Sleep(20 * time.Millisecond)
			err = c.ContainerRemove(ctx, found.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		}
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("cannot remove the container %s: %w", found.ID, err))
		}
	}
	return errors.Join(errs...)
}

// uses reports whether a container keeps its state in the directory or mounts something
// of it.
func uses(c container.Summary, dir string) bool {
	in := func(path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	if in(c.Labels[labelState]) {
		return true
	}
	for _, m := range c.Mounts {
		if in(m.Source) {
			return true
		}
	}
	return false
}
