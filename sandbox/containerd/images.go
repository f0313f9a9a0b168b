//go:build linux

package containerd

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	client "github.com/containerd/containerd"
	"github.com/containerd/containerd/content"
	ctrimages "github.com/containerd/containerd/images"
	"github.com/containerd/containerd/leases"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	imagespec "github.com/opencontainers/image-spec/specs-go"
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

// Import implements images.Engine. The image is one of the Open Container
// Initiative's formats: a manifest, the configuration, and the layer as it
// comes. A lease keeps them until they are unpacked and have a name; without a
// name they are garbage once it is gone.
func (s imageStore) Import(ctx context.Context, name string, config images.ImageConfig, layer io.Reader) (err error) {
	ctx = s.in(ctx)
	named, err := full(name)
	if err != nil {
		return err
	}
	ctx, done, err := s.c.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(importTime))
	if err != nil {
		return s.fail("import the image "+name, err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), longCall)
		defer cancel()
		err = errors.Join(err, done(end))
	}()
	target, err := s.write(ctx, config, layer)
	if err != nil {
		return s.imageError("import the image "+name, err)
	}
	img := ctrimages.Image{Name: named, Target: target, Labels: config.Labels}
	if err := client.NewImage(s.c, img).Unpack(ctx, snapshotter); err != nil {
		return s.fail("unpack the image "+name, err)
	}
	_, err = s.c.ImageService().Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		_, err = s.c.ImageService().Update(ctx, img)
	}
	return s.fail("import the image "+name, err)
}

// write writes an image of one layer.
func (s imageStore) write(ctx context.Context, config images.ImageConfig, layer io.Reader) (ocispec.Descriptor, error) {
	store := s.c.ContentStore()
	blob, err := s.writeLayer(ctx, store, layer)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	configText, err := json.Marshal(ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: localArch},
		Config:   ocispec.ImageConfig{Env: config.Env, WorkingDir: config.Dir, Cmd: config.Cmd, Labels: config.Labels},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{blob.Digest}}, // it is not compressed
		History:  []ocispec.History{{CreatedBy: config.Comment}},
	})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	configBlob := descriptor(ocispec.MediaTypeImageConfig, configText)
	manifestText, err := json.Marshal(ocispec.Manifest{
		Versioned: imagespec.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: configBlob, Layers: []ocispec.Descriptor{blob},
	})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	manifest := descriptor(ocispec.MediaTypeImageManifest, manifestText)
	if err := writeBlob(ctx, store, configBlob, configText, nil); err != nil {
		return ocispec.Descriptor{}, err
	}
	return manifest, writeBlob(ctx, store, manifest, manifestText, map[string]string{
		"containerd.io/gc.ref.content.config": configBlob.Digest.String(),
		"containerd.io/gc.ref.content.l.0":    blob.Digest.String(),
	})
}

func descriptor(mediaType string, text []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}
}

func writeBlob(ctx context.Context, store content.Store, d ocispec.Descriptor, text []byte, labels map[string]string) error {
	return content.WriteBlob(ctx, store, "corral-"+d.Digest.Encoded(), bytes.NewReader(text), d, content.WithLabels(labels))
}

// writeLayer stores a layer of which neither the size nor the digest is known.
func (s imageStore) writeLayer(ctx context.Context, store content.Store, layer io.Reader) (_ ocispec.Descriptor, err error) {
	ref := "corral-import-" + strings.ToLower(rand.Text())
	w, err := content.OpenWriter(ctx, store, content.WithRef(ref))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	committed := false
	defer func() {
		err = errors.Join(err, w.Close())
		if !committed {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortCall)
			defer cancel()
			if aerr := store.Abort(end, ref); !errdefs.IsNotFound(aerr) {
				err = errors.Join(err, aerr)
			}
		}
	}()
	sum := digest.SHA256.Digester()
	size, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(w, sum.Hash())}, layer, make([]byte, 1<<20))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: sum.Digest(), Size: size}
	if err := w.Commit(ctx, size, d.Digest); err != nil && !errdefs.IsAlreadyExists(err) {
		return ocispec.Descriptor{}, err
	}
	committed = true
	return d, nil
}
