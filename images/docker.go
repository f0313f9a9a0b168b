package images

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"
)

// A DockerAPI is what of the Docker API this package needs; *client.Client of
// github.com/docker/docker/client has it.
type DockerAPI interface {
	ServerVersion(ctx context.Context) (types.Version, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageList(ctx context.Context, opts image.ListOptions) ([]image.Summary, error)
	ImagePull(ctx context.Context, ref string, opts image.PullOptions) (io.ReadCloser, error)
	ImageImport(ctx context.Context, src image.ImportSource, ref string, opts image.ImportOptions) (io.ReadCloser, error)
	ImageRemove(ctx context.Context, ref string, opts image.RemoveOptions) ([]image.DeleteResponse, error)
}

var _ DockerAPI = (*client.Client)(nil)

// Docker is an engine with the Docker API as an Engine.
func Docker(api DockerAPI) Engine { return docker{api} }

type docker struct{ api DockerAPI }

func (d docker) Platform(ctx context.Context) (os, arch string, err error) {
	v, err := d.api.ServerVersion(ctx)
	return v.Os, v.Arch, err
}

func (d docker) Image(ctx context.Context, ref string) (EngineImage, error) {
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

func (d docker) Pull(ctx context.Context, ref reference.Named, auth registry.AuthConfig, report func(Transfer)) error {
	var opts image.PullOptions
	if auth != (registry.AuthConfig{}) {
		header, err := registry.EncodeAuthConfig(auth)
		if err != nil {
			return err
		}
		opts.RegistryAuth = header
	}
	body, err := d.api.ImagePull(ctx, reference.FamiliarString(ref), opts)
	if err != nil {
		return err
	}
	defer body.Close() // it was only read
	return readStream(body, func(m message) { report(Transfer(m)) })
}

// Import leaves nothing where it fails: the engine registers a layer only after
// the last byte of the archive, and gives it a name after that.
func (d docker) Import(ctx context.Context, name string, config ImageConfig, layer io.Reader) error {
	body, err := d.api.ImageImport(ctx, image.ImportSource{Source: layer, SourceName: "-"}, name, image.ImportOptions{Message: config.Comment, Changes: config.changes()})
	if err != nil {
		return err
	}
	defer body.Close()
	// The only messages are the image's ID and, maybe, a failure.
	return readStream(body, func(message) {})
}

func (d docker) RemoveImage(ctx context.Context, ref string) error {
	_, err := d.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	return err
}

// changes are the configuration as instructions of a Dockerfile.
func (c ImageConfig) changes() []string {
	var out []string
	for _, kv := range c.Env {
		out = append(out, "ENV "+kv)
	}
	if c.Dir != "" {
		out = append(out, "WORKDIR "+c.Dir)
	}
	if len(c.Cmd) > 0 {
		args := make([]string, len(c.Cmd))
		for i, arg := range c.Cmd {
			args[i] = strconv.Quote(arg)
		}
		out = append(out, "CMD ["+strings.Join(args, ", ")+"]")
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		v := c.Labels[k]
		if strings.ContainsAny(v, " \t\"'\\$#") {
			v = strconv.Quote(v)
		}
		out = append(out, "LABEL "+k+"="+v)
	}
	return out
}

// tags drops the engine's word for having none.
func tags(repoTags []string) []string {
	return slices.DeleteFunc(slices.Clone(repoTags), func(t string) bool { return t == "<none>:<none>" })
}
