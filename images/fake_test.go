package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// A fakeEngine keeps images in memory and reads what it imports to the end, as
// an engine does. Its hooks inject what goes wrong.
type fakeEngine struct {
	mu     sync.Mutex
	images map[string]*fakeImage // by ID
	count  int
	calls  []string
	pulls  []image.PullOptions

	arch     string                                           // of the engine; empty: this machine's
	broken   error                                            // of every call
	pull     func(ctx context.Context) (io.ReadCloser, error) // nil: the image appears
	imported func(tar io.Reader) (stream string, ok bool)     // nil: reads all and succeeds
	remove   func(ref string) error                           // nil: removes
}

type fakeImage struct {
	id     string
	tags   []string
	labels map[string]string
	layer  string // digest of the archive
}

func newFake() *fakeEngine { return &fakeEngine{images: map[string]*fakeImage{}} }

func (f *fakeEngine) called(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.broken
}

// add puts an image in place of any with the same name.
func (f *fakeEngine) add(ref, layer string, labels map[string]string) *fakeImage {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	for _, img := range f.images {
		img.tags = slices.DeleteFunc(img.tags, func(t string) bool { return t == ref })
	}
	img := &fakeImage{id: fmt.Sprintf("sha256:%064x", f.count), tags: []string{ref}, labels: labels, layer: layer}
	f.images[img.id] = img
	return img
}

func (f *fakeEngine) find(ref string) *fakeImage {
	for _, img := range f.images {
		if img.id == ref || slices.Contains(img.tags, ref) {
			return img
		}
	}
	return nil
}

func (f *fakeEngine) ServerVersion(context.Context) (types.Version, error) {
	arch := f.arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	return types.Version{Os: "linux", Arch: arch}, f.called("version")
}

func (f *fakeEngine) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
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

func (f *fakeEngine) ImageList(_ context.Context, opts image.ListOptions) ([]image.Summary, error) {
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
			var n int64
			fmt.Sscanf(strings.TrimPrefix(img.id, "sha256:"), "%x", &n)
			all = append(all, image.Summary{ID: img.id, RepoTags: img.tags, Labels: img.labels, Created: n})
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
	f.add(ref, "", nil)
	return io.NopCloser(strings.NewReader(
		`{"status":"Pulling from x","id":"1"}` + "\r\n" +
			`{"status":"Downloading","progressDetail":{"current":5,"total":10},"id":"aaa"}` + "\r\n" +
			`{"status":"Status: Downloaded"}` + "\r\n")), nil
}

func (f *fakeEngine) ImageImport(_ context.Context, src image.ImportSource, ref string, opts image.ImportOptions) (io.ReadCloser, error) {
	if err := f.called("import %s", ref); err != nil {
		return nil, err
	}
	if f.imported != nil {
		stream, ok := f.imported(src.Source)
		if !ok {
			return nil, errors.New(stream)
		}
		return io.NopCloser(strings.NewReader(stream)), nil
	}
	var archive bytes.Buffer
	if _, err := io.Copy(&archive, src.Source); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(archive.Bytes())
	for tr := tar.NewReader(&archive); ; {
		if _, err := tr.Next(); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
	}
	labels := map[string]string{}
	for _, change := range opts.Changes {
		if kv, ok := strings.CutPrefix(change, "LABEL "); ok {
			k, v, _ := strings.Cut(kv, "=")
			labels[k] = strings.Trim(v, `"`)
		}
	}
	img := f.add(ref, hex.EncodeToString(sum[:]), labels)
	return io.NopCloser(strings.NewReader(`{"status":"` + img.id + `"}` + "\n")), nil
}

func (f *fakeEngine) ImageRemove(_ context.Context, ref string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
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
	r.build = func(context.Context, string, Progress) (rootfs, error) {
		return busyboxRoot([]byte("binary"), []string{"ls", "sh"}, testTime), nil
	}
	recipes[Busybox] = r
	return &r
}

func fakeStore(t *testing.T) (Store, *fakeEngine) {
	f := newFake()
	return Store{Engine: Docker(f), Dir: t.TempDir(), Credentials: noCredentials}, f
}
