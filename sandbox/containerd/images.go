//go:build linux

package containerd

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	ctrimages "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/corral-exec/corral/images"
)

// snapshotter keeps the file systems of images and containers.
const snapshotter = "overlayfs"

// Images is the engine as package images needs it. It has the images of the
// namespace alone.
func (e *Engine) Images() images.Engine { return imageStore{e} }

type imageStore struct{ *Engine }

// Platform implements images.Engine.
func (s imageStore) Platform(ctx context.Context) (os, arch string, err error) {
	_, err = s.Info(ctx) // which is also whether it answers
	return "linux", localArch, err
}

// full is the name by which containerd knows an image: with its registry.
func full(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("%q is not the name of an image: %w: %w", ref, errdefs.ErrInvalidArgument, err)
	}
	return reference.TagNameOnly(named).String(), nil
}

// familiar is the opposite.
func familiar(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return reference.FamiliarString(named)
}

// find finds what an image is called: by a name, or by its ID, which any number
// of names may have. There is at least one, or the error is not found.
func (e *Engine) find(ctx context.Context, ref string) ([]ctrimages.Image, error) {
	if id, err := digest.Parse(ref); err == nil {
		list, err := e.c.ImageService().List(ctx, "target.digest=="+id.String())
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("no image %s: %w", ref, errdefs.ErrNotFound)
		}
		return list, err
	}
	name, err := full(ref)
	if err != nil {
		return nil, err
	}
	img, err := e.c.ImageService().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return []ctrimages.Image{img}, nil
}

// Image implements images.Engine.
func (s imageStore) Image(ctx context.Context, ref string) (images.EngineImage, error) {
	ctx, cancel := s.call(ctx, shortCall)
	defer cancel()
	found, err := s.find(ctx, ref)
	if err != nil {
		return images.EngineImage{}, s.imageError("look at the image "+ref, err)
	}
	same, err := s.find(ctx, found[0].Target.Digest.String())
	if err != nil {
		return images.EngineImage{}, s.imageError("look at the image "+ref, err)
	}
	img, err := s.describeImage(ctx, found[0], same)
	return img, s.imageError("look at the image "+ref, err)
}

// imageError leaves not found and conflict as they are.
func (s imageStore) imageError(what string, err error) error {
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return err
	}
	return s.fail(what, err)
}

func (s imageStore) describeImage(ctx context.Context, img ctrimages.Image, same []ctrimages.Image) (images.EngineImage, error) {
	out := images.EngineImage{ID: img.Target.Digest.String(), Created: img.UpdatedAt}
	for _, other := range same {
		out.Tags = append(out.Tags, familiar(other.Name))
	}
	slices.Sort(out.Tags)
	i := client.NewImage(s.c, img)
	config, err := i.Spec(ctx)
	if err != nil {
		return out, err
	}
	out.Labels, out.Arch = config.Config.Labels, config.Architecture
	if config.Created != nil {
		out.Created = *config.Created
	}
	// What its layers take unpacked, as far as they are.
	snapshots := s.c.SnapshotService(snapshotter)
	for n := range config.RootFS.DiffIDs {
		usage, err := snapshots.Usage(ctx, identity.ChainID(config.RootFS.DiffIDs[:n+1]).String())
		if err != nil && !errdefs.IsNotFound(err) {
			return out, err
		}
		out.Size += usage.Size
	}
	return out, nil
}

// Images implements images.Engine.
func (s imageStore) Images(ctx context.Context, label string) ([]images.EngineImage, error) {
	ctx, cancel := s.call(ctx, shortCall)
	defer cancel()
	list, err := s.c.ImageService().List(ctx, fmt.Sprintf("labels.%q", label))
	if err != nil {
		return nil, s.fail("list images", err)
	}
	byID := map[digest.Digest][]ctrimages.Image{}
	for _, img := range list {
		byID[img.Target.Digest] = append(byID[img.Target.Digest], img)
	}
	var out []images.EngineImage
	for _, same := range byID {
		img, err := s.describeImage(ctx, same[0], same)
		if errdefs.IsNotFound(err) { // removed just now
			continue
		}
		if err != nil {
			return nil, s.fail("list images", err)
		}
		out = append(out, img)
	}
	return out, nil
}

// LastStep implements images.Engine.
func (s imageStore) LastStep(ctx context.Context, id string) (string, error) {
	ctx, cancel := s.call(ctx, shortCall)
	defer cancel()
	found, err := s.find(ctx, id)
	if err != nil {
		return "", s.imageError("look at the image "+id, err)
	}
	config, err := client.NewImage(s.c, found[0]).Spec(ctx)
	if n := len(config.History); err == nil && n > 0 {
		return config.History[n-1].Comment, nil
	}
	return "", s.imageError("look at the image "+id, err)
}

// RemoveImage implements images.Engine.
func (s imageStore) RemoveImage(ctx context.Context, ref string) error {
	ctx, cancel := s.call(ctx, longCall)
	defer cancel()
	found, err := s.find(ctx, ref)
	if err != nil {
		return s.imageError("remove the image "+ref, err)
	}
	users, err := s.c.ContainerService().List(ctx)
	if err != nil {
		return s.fail("remove the image "+ref, err)
	}
	for _, img := range found {
		for _, c := range users {
			if c.Image == img.Name {
				return fmt.Errorf("the container %s uses %s: %w", c.ID, familiar(img.Name), errdefs.ErrConflict)
			}
		}
	}
	for _, img := range found {
		// Synchronous: what it takes on disk is free afterwards.
		if err := s.c.ImageService().Delete(ctx, img.Name, ctrimages.SynchronousDelete()); err != nil {
			return s.imageError("remove the image "+ref, err)
		}
	}
	return nil
}

// importTime is how long containerd keeps what is not yet an image, if we die
// while making it.
const importTime = time.Hour

// Load implements images.Engine. A lease keeps what is stored until it is
// unpacked and has a name; without a name it is garbage once that is gone.
func (s imageStore) Load(ctx context.Context, archive io.Reader) (err error) {
	ctx = s.in(ctx)
	ctx, done, err := s.c.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(importTime))
	if err != nil {
		return s.fail("import an image", err)
	}
	store := &ingests{Store: s.c.ContentStore()}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), longCall)
		defer cancel()
		if err != nil {
			err = errors.Join(err, store.abort(end))
		}
		err = errors.Join(err, done(end))
	}()
	img, err := s.store(ctx, store, archive)
	if err != nil {
		return s.imageError("import an image", err)
	}
	if err := client.NewImage(s.c, img).Unpack(ctx, snapshotter); err != nil {
		return s.fail("unpack the image "+img.Name, err)
	}
	_, err = s.c.ImageService().Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		_, err = s.c.ImageService().Update(ctx, img)
	}
	return s.fail("import the image "+img.Name, err)
}

// store stores what an archive has, which has to be one image with a name.
func (s imageStore) store(ctx context.Context, store content.Store, r io.Reader) (img ctrimages.Image, err error) {
	top, err := archive.ImportIndex(ctx, store, r)
	if err != nil {
		return img, err
	}
	text, err := content.ReadBlob(ctx, store, top)
	if err != nil {
		return img, err
	}
	var index ocispec.Index
	if err := json.Unmarshal(text, &index); err != nil {
		return img, err
	}
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations[ctrimages.AnnotationImageName] == "" {
		return img, fmt.Errorf("the archive has %d images, or one without a name: %w", len(index.Manifests), errdefs.ErrInvalidArgument)
	}
	found := index.Manifests[0]
	target := ocispec.Descriptor{MediaType: found.MediaType, Digest: found.Digest, Size: found.Size}
	// What it is made of is kept as long as it is.
	keep := ctrimages.SetChildrenMappedLabels(store, ctrimages.ChildrenHandler(store), nil)
	if err := ctrimages.Walk(ctx, keep, target); err != nil {
		return img, err
	}
	img = ctrimages.Image{Name: found.Annotations[ctrimages.AnnotationImageName], Target: target}
	config, err := client.NewImage(s.c, img).Spec(ctx)
	img.Labels = config.Config.Labels
	return img, err
}

// Ingests remember what was begun to be stored: what is not complete is kept for
// a day otherwise.
type ingests struct {
	content.Store
	refs []string
}

func (s *ingests) Writer(ctx context.Context, opts ...content.WriterOpt) (content.Writer, error) {
	var o content.WriterOpts
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	s.refs = append(s.refs, o.Ref)
	return s.Store.Writer(ctx, opts...)
}

func (s *ingests) abort(ctx context.Context) error {
	var errs []error
	for _, ref := range s.refs {
		if err := s.Abort(ctx, ref); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ReadFile implements images.Engine. It looks into the layers as they are
// stored, the highest first; a layer that is compressed is read to its end.
func (s imageStore) ReadFile(ctx context.Context, ref, name string, limit int64) ([]byte, error) {
	ctx, cancel := s.call(ctx, longCall)
	defer cancel()
	what := "read " + name + " of the image " + ref
	found, err := s.find(ctx, ref)
	if err != nil {
		return nil, s.imageError(what, err)
	}
	store := s.c.ContentStore()
	manifest, err := ctrimages.Manifest(ctx, store, found[0].Target, client.NewImage(s.c, found[0]).Platform())
	if err != nil {
		return nil, s.imageError(what, err)
	}
	for _, layer := range slices.Backward(manifest.Layers) {
		text, err := readLayerFile(ctx, store, layer, name, limit)
		if err == nil || !errdefs.IsNotFound(err) {
			return text, s.imageError(what, err)
		}
	}
	return nil, fmt.Errorf("no file %s in the image %s: %w", name, ref, errdefs.ErrNotFound)
}

func readLayerFile(ctx context.Context, store content.Provider, layer ocispec.Descriptor, name string, limit int64) ([]byte, error) {
	blob, err := store.ReaderAt(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer blob.Close() // it was only read
	plain, err := compression.DecompressStream(io.NewSectionReader(blob, 0, blob.Size()))
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	for tr := tar.NewReader(plain); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return nil, fmt.Errorf("no file %s in the layer %s: %w", name, layer.Digest, errdefs.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		if path.Join("/", h.Name) == name {
			return images.ReadEntry(tr, h, limit)
		}
	}
}
