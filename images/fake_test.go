package images

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A fakeEngine keeps images in memory and reads what it imports to the end, as
// an engine does. Its hooks inject what goes wrong.
type fakeEngine struct {
	mu     sync.Mutex
	images map[string]*fakeImage // by ID
	count  int
	calls  []string
	pulls  []image.PullOptions

	listed     []container.Summary // containers that are there
	unlimited  []string            // questions that may take any time
	containers int
	volumes    int // of containers of images that ask for one

	arch   string // of the engine; empty: this machine's
	broken error  // of every call
	asked  error  // what a registry answers

	components []types.ComponentVersion
	pull       func(ctx context.Context) (io.ReadCloser, error) // nil: the image appears
	loaded     func(tar io.Reader) (stream string, ok bool)     // nil: reads all and succeeds
	remove     func(ref string) error                           // nil: removes
}

type fakeImage struct {
	id     string
	tags   []string
	labels map[string]string
	layer  []byte // the lowest

	comment string // of its last step

	created int64
}

func newFake() *fakeEngine { return &fakeEngine{images: map[string]*fakeImage{}} }

func (f *fakeEngine) called(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.broken
}

// add puts an image in place of any with the same name.
func (f *fakeEngine) add(ref string, layer []byte, labels map[string]string) *fakeImage {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	for _, img := range f.images {
		img.tags = slices.DeleteFunc(img.tags, func(t string) bool { return t == ref })
	}
	img := &fakeImage{id: fmt.Sprintf("sha256:%064x", f.count), tags: []string{ref}, labels: labels, layer: layer, created: int64(f.count), comment: builtBy(labels[LabelRecipe])}
	f.images[img.id] = img
	return img
}

// identify gives img its ID, which an image has that is made of the same.
func (f *fakeEngine) identify(img *fakeImage, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.images, img.id)
	img.id = id
	f.images[id] = img
}

func (f *fakeEngine) find(ref string) *fakeImage {
	for _, img := range f.images {
		if img.id == ref || slices.Contains(img.tags, ref) {
			return img
		}
	}
	return nil
}

// timed notes a question without a limit of time.
func (f *fakeEngine) timed(ctx context.Context, what string) {
	if _, ok := ctx.Deadline(); !ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unlimited = append(f.unlimited, what)
	}
}

func (f *fakeEngine) ServerVersion(ctx context.Context) (types.Version, error) {
	f.timed(ctx, "version")
	arch := f.arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	return types.Version{Os: "linux", Arch: arch, Components: f.components}, f.called("version")
}

func (f *fakeEngine) DistributionInspect(_ context.Context, ref, _ string) (registry.DistributionInspect, error) {
	if err := f.called("ask %s", ref); err != nil {
		return registry.DistributionInspect{}, err
	}
	return registry.DistributionInspect{}, f.asked
}

func (f *fakeEngine) ImageInspect(ctx context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	f.timed(ctx, "inspect")
	if err := f.called("inspect %s", ref); err != nil {
		return image.InspectResponse{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	img := f.find(ref)
	if img == nil {
		return image.InspectResponse{}, fmt.Errorf("no such image: %s: %w", ref, cerrdefs.ErrNotFound)
	}
	config := &dockerspec.DockerOCIImageConfig{}
	config.Labels = img.labels
	return image.InspectResponse{ID: img.id, RepoTags: img.tags, Config: config, Created: "2024-05-06T07:08:09.5Z", Architecture: runtime.GOARCH}, nil
}

func (f *fakeEngine) ImageHistory(ctx context.Context, ref string, _ ...client.ImageHistoryOption) ([]image.HistoryResponseItem, error) {
	f.timed(ctx, "history")
	if err := f.called("history %s", ref); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	img := f.find(ref)
	if img == nil {
		return nil, fmt.Errorf("no such image: %s: %w", ref, cerrdefs.ErrNotFound)
	}
	return []image.HistoryResponseItem{{Comment: img.comment}, {Comment: builtBy(img.labels[LabelRecipe])}}, nil
}

func (f *fakeEngine) ImageList(ctx context.Context, opts image.ListOptions) ([]image.Summary, error) {
	f.timed(ctx, "list")
	if err := f.called("list"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []image.Summary
	for _, img := range f.images {
		labelled := map[string]bool{}
		for k := range img.labels {
			labelled[k] = true
		}
		if wanted := opts.Filters.Get("label"); len(wanted) == 1 && labelled[wanted[0]] {
			all = append(all, image.Summary{ID: img.id, RepoTags: img.tags, Labels: img.labels, Created: img.created})
		}
	}
	return all, nil
}

func (f *fakeEngine) ImagePull(ctx context.Context, ref string, opts image.PullOptions) (io.ReadCloser, error) {
	if err := f.called("pull %s", ref); err != nil {
		return nil, err
	}
	f.pulls = append(f.pulls, opts)
	if f.pull != nil {
		return f.pull(ctx)
	}
	f.add(ref, nil, nil)
	return io.NopCloser(strings.NewReader(
		`{"status":"Pulling from x","id":"1"}` + "\r\n" +
			`{"status":"Downloading","progressDetail":{"current":5,"total":10},"id":"aaa"}` + "\r\n" +
			`{"status":"Status: Downloaded"}` + "\r\n")), nil
}

func (f *fakeEngine) ImageLoad(_ context.Context, archive io.Reader, _ ...client.ImageLoadOption) (image.LoadResponse, error) {
	answer := func(text string) (image.LoadResponse, error) {
		return image.LoadResponse{Body: io.NopCloser(strings.NewReader(text)), JSON: true}, nil
	}
	if err := f.called("load"); err != nil {
		return image.LoadResponse{}, err
	}
	if f.loaded != nil {
		stream, ok := f.loaded(archive)
		if !ok {
			return image.LoadResponse{}, errors.New(stream)
		}
		return answer(stream)
	}
	// As engines of before the OCI do it.
	files := map[string][]byte{}
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return image.LoadResponse{}, err
		}
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			return image.LoadResponse{}, err
		}
	}
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	var config ocispec.Image
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		return image.LoadResponse{}, err
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		return image.LoadResponse{}, err
	}
	img := f.add(manifest[0].RepoTags[0], files[manifest[0].Layers[0]], config.Config.Labels)
	f.identify(img, digest.FromBytes(files[manifest[0].Config]).String())
	return answer(`{"stream":"Loaded image: ` + manifest[0].RepoTags[0] + `\n"}` + "\n")
}

func (f *fakeEngine) ContainerList(ctx context.Context, opts container.ListOptions) ([]container.Summary, error) {
	f.timed(ctx, "containers")
	var found []container.Summary
	for _, c := range f.listed {
		if opts.All && len(c.Labels) > 0 && opts.Filters.MatchKVList("label", c.Labels) {
			found = append(found, c)
		}
	}
	return found, f.called("containers")
}

func (f *fakeEngine) ContainerCreate(_ context.Context, config *container.Config, _ *container.HostConfig, _ *network.NetworkingConfig, _ *ocispec.Platform, _ string) (container.CreateResponse, error) {
	err := f.called("create %s", config.Image)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.containers++
	f.volumes++
	return container.CreateResponse{ID: config.Image}, err
}

// CopyFromContainer finds a file in the first layer of the image that the
// container was created of.
func (f *fakeEngine) CopyFromContainer(_ context.Context, id, path string) (io.ReadCloser, container.PathStat, error) {
	if err := f.called("copy %s", path); err != nil {
		return nil, container.PathStat{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for tr := tar.NewReader(bytes.NewReader(f.find(id).layer)); ; {
		h, err := tr.Next()
		if err != nil {
			return nil, container.PathStat{}, cerrdefs.ErrNotFound
		}
		if "/"+h.Name == path {
			var out bytes.Buffer
			tw := tar.NewWriter(&out)
			if err := tw.WriteHeader(h); err != nil {
				return nil, container.PathStat{}, err
			}
			_, err := io.Copy(tw, tr)
			return io.NopCloser(&out), container.PathStat{}, err
		}
	}
}

func (f *fakeEngine) ContainerRemove(_ context.Context, id string, o container.RemoveOptions) error {
	f.mu.Lock()
	f.containers--
	if o.RemoveVolumes {
		f.volumes--
	}
	f.mu.Unlock()
	return f.called("rm %s", id)
}

func (f *fakeEngine) ImageRemove(ctx context.Context, ref string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
	f.timed(ctx, "remove")
	if err := f.called("remove %s", ref); err != nil {
		return nil, err
	}
	if f.remove != nil {
		if err := f.remove(ref); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	img := f.find(ref)
	if img == nil {
		return nil, cerrdefs.ErrNotFound
	}
	delete(f.images, img.id)
	return nil, nil
}

// did counts the calls that begin with verb.
func (f *fakeEngine) did(verb string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if strings.HasPrefix(c, verb) {
			n++
		}
	}
	return n
}

// useRecipe replaces the recipe of Busybox by one that needs nothing of this
// machine.
func useRecipe(t *testing.T) *recipe {
	t.Helper()
	old := recipes[Busybox]
	t.Cleanup(func() { recipes[Busybox] = old })
	r := old
	r.content = "a test's"
	r.check = func() error { return nil }
	r.build = func(context.Context, building, Progress) (rootfs, error) {
		return busyboxRoot([]byte("binary"), []string{"ls", "sh"}, testTime), nil
	}
	recipes[Busybox] = r
	return &r
}

func fakeStore(t *testing.T) (Store, *fakeEngine) {
	f := newFake()
	return Store{Engine: Docker(f), Dir: t.TempDir(), Credentials: noCredentials}, f
}
