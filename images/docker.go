package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A DockerAPI is what of the Docker API this package needs; *client.Client of
// github.com/docker/docker/client has it.
type DockerAPI interface {
	ServerVersion(ctx context.Context) (types.Version, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageHistory(ctx context.Context, ref string, opts ...client.ImageHistoryOption) ([]image.HistoryResponseItem, error)
	ImageList(ctx context.Context, opts image.ListOptions) ([]image.Summary, error)
	DistributionInspect(ctx context.Context, ref, auth string) (registry.DistributionInspect, error)
	ImagePull(ctx context.Context, ref string, opts image.PullOptions) (io.ReadCloser, error)
	ImageLoad(ctx context.Context, archive io.Reader, opts ...client.ImageLoadOption) (image.LoadResponse, error)
	ImageRemove(ctx context.Context, ref string, opts image.RemoveOptions) ([]image.DeleteResponse, error)

	// For files of images.
	ContainerList(ctx context.Context, opts container.ListOptions) ([]container.Summary, error)
	ContainerCreate(ctx context.Context, config *container.Config, host *container.HostConfig, net *network.NetworkingConfig, platform *ocispec.Platform, name string) (container.CreateResponse, error)
	CopyFromContainer(ctx context.Context, id, path string) (io.ReadCloser, container.PathStat, error)
	ContainerRemove(ctx context.Context, id string, opts container.RemoveOptions) error
}

var _ DockerAPI = (*client.Client)(nil)

// Docker is an engine with the Docker API as an Engine.
func Docker(api DockerAPI) Engine { return docker{api} }

type docker struct{ api DockerAPI }

// Deadlines of single calls. An engine may answer, and hang when it is asked for more.
const (
	askTime    = 15 * time.Second
	readTime   = time.Minute // of a file
	removeTime = 2 * time.Minute
)

func (d docker) Platform(ctx context.Context) (os, arch string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v, err := d.api.ServerVersion(ctx)
	return v.Os, v.Arch, err
}

func (d docker) Image(ctx context.Context, ref string) (EngineImage, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := d.api.ImageInspect(ctx, ref)
	if err != nil {
		return EngineImage{}, err
	}
	img := EngineImage{ID: r.ID, Tags: tags(r.RepoTags), Arch: r.Architecture, Size: r.Size}
	if r.Created != "" {
		if img.Created, err = time.Parse(time.RFC3339Nano, r.Created); err != nil {
			return EngineImage{}, err
		}
	}
	if r.Config != nil {
		img.Labels = r.Config.Labels
	}
	return img, nil
}

func (d docker) Images(ctx context.Context, label string) ([]EngineImage, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found, err := d.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return nil, err
	}
	list := make([]EngineImage, 0, len(found))
	for _, f := range found {
		list = append(list, EngineImage{ID: f.ID, Tags: tags(f.RepoTags), Labels: f.Labels, Size: f.Size, Created: time.Unix(f.Created, 0)})
	}
	return list, nil
}

func (d docker) LastStep(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	steps, err := d.api.ImageHistory(ctx, id) // the last first
	if err != nil || len(steps) == 0 {
		return "", err
	}
	return steps[0].Comment, nil
}

// Ask implements Asker. Podman has nothing of the kind, and says that it is not
// found.
func (d docker) Ask(ctx context.Context, ref reference.Named, auth registry.AuthConfig) error {
	v, err := d.api.ServerVersion(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(v.Components, func(c types.ComponentVersion) bool { return strings.HasPrefix(c.Name, "Podman") }) {
		return errors.ErrUnsupported
	}
	header, err := authHeader(auth)
	if err != nil {
		return err
	}
	_, err = d.api.DistributionInspect(ctx, reference.FamiliarString(ref), header)
	return err
}

// authHeader is how credentials are sent; empty for none.
func authHeader(auth registry.AuthConfig) (string, error) {
	if auth == (registry.AuthConfig{}) {
		return "", nil
	}
	return registry.EncodeAuthConfig(auth)
}

func (d docker) Pull(ctx context.Context, ref reference.Named, auth registry.AuthConfig, report func(Transfer)) error {
	header, err := authHeader(auth)
	if err != nil {
		return err
	}
	body, err := d.api.ImagePull(ctx, reference.FamiliarString(ref), image.PullOptions{RegistryAuth: header})
	if err != nil {
		return err
	}
	defer body.Close() // it was only read
	return readStream(body, func(m message) { report(Transfer(m)) })
}

// Load leaves nothing where it fails: the engine reads the archive to its end
// before it looks into it, and gives an image its name last.
func (d docker) Load(ctx context.Context, archive io.Reader) error {
	r, err := d.api.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	// The only messages are the image's name and, maybe, a failure.
	return readStream(r.Body, func(message) {})
}

// labelReader marks the containers of ReadFile.
const labelReader = "corral.reader"

// ReadFile takes the file from a container that is never started: the API has
// no other way to a file of an image than to copy all of it.
func (d docker) ReadFile(ctx context.Context, ref, name string, limit int64) (_ []byte, err error) {
	if err := d.removeReaders(ctx, 2*readTime); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	c, err := d.api.ContainerCreate(ctx, &container.Config{Image: ref, Cmd: []string{"-"}, NetworkDisabled: true, Labels: map[string]string{labelReader: ""}},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.removeReader(context.WithoutCancel(ctx), c.ID)) }()
	body, _, err := d.api.CopyFromContainer(ctx, c.ID, name)
	if err != nil {
		return nil, err
	}
	defer body.Close() // it was only read
	tr := tar.NewReader(body)
	h, err := tr.Next()
	if err != nil {
		return nil, fmt.Errorf("read %s of image %s: %w", name, ref, err)
	}
	return ReadEntry(tr, h, limit)
}

func (d docker) removeReader(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	return d.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}) // those that the image asks for
}

// removeReaders removes containers of ReadFile that are of an age: their program was
// killed. While they are there, their image is in use.
func (d docker) removeReaders(ctx context.Context, age time.Duration) error {
	ask, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	list, err := d.api.ContainerList(ask, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelReader))})
	errs := []error{err}
	for _, c := range list {
		if time.Since(time.Unix(c.Created, 0)) < age {
			continue
		}
		if err := d.removeReader(ctx, c.ID); !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) { // another removes it
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d docker) RemoveImage(ctx context.Context, ref string) error {
	if err := d.removeReaders(ctx, 2*readTime); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	_, err := d.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	return err
}

// tags are names as people write them: Podman has them with their registry, and
// Docker has a word for having none.
func tags(repoTags []string) []string {
	var out []string
	for _, t := range repoTags {
		if named, err := reference.ParseNormalizedNamed(t); err == nil {
			out = append(out, reference.FamiliarString(named))
		}
	}
	return out
}
