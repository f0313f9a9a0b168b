package images

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// nameAnnotation is where containerd looks for the whole name of an image.
const nameAnnotation = "io.containerd.image.name"

// A Layer is a tar archive of files of an image: the same bytes each time that
// it is written.
type Layer interface {
	WriteTar(ctx context.Context, w io.Writer) error
}

// An Archive is an image on its way to an engine. The same name, configuration
// and layers are the same bytes, wherever and whenever they are written, and
// so the same image to every engine.
//
// It is a tar archive in the image layout of the Open Container Initiative,
// for this machine's architecture, with a manifest.json beside, which is what
// engines read that know only Docker's own format. Layers are not compressed:
// they do not go far.
type Archive struct {
	// Config is the digest of the configuration, which is the image's ID to
	// Docker and Podman; Manifest is that of the manifest, which is its ID
	// to containerd.
	Config, Manifest digest.Digest
	Size             int64 // bytes of all

	created time.Time
	files   []archiveFile
}

// An archiveFile has a text or a layer, which is written out when it is needed.
type archiveFile struct {
	name string // with a slash at the end: a directory
	desc ocispec.Descriptor
	text []byte
	from Layer
}

// NewArchive makes an image of layers, the lowest first. It reads each of them
// once, for its digest; Write reads them again. Created should say how old
// the newest file is, rather than what time it is.
func NewArchive(ctx context.Context, name string, config ImageConfig, created time.Time, layers ...Layer) (*Archive, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not the name of an image: %w", name, err)
	}
	tagged, ok := reference.TagNameOnly(named).(reference.NamedTagged)
	if !ok {
		return nil, fmt.Errorf("%q names an image by its digest", name)
	}
	created = created.UTC().Truncate(time.Second)
	a := &Archive{created: created}
	image := ocispec.Image{
		Created: &created, Platform: ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH},
		Config: ocispec.ImageConfig{User: config.User, Env: config.Env, WorkingDir: config.Dir, Cmd: config.Cmd, Labels: config.Labels},
		RootFS: ocispec.RootFS{Type: "layers"},
	}
	var blobs []archiveFile
	for _, layer := range layers {
		sum := digest.SHA256.Digester()
		counted := &counter{ctx: ctx, w: sum.Hash()}
		if err := layer.WriteTar(ctx, counted); err != nil {
			return nil, err
		}
		blob := blobFile(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: sum.Digest(), Size: counted.n})
		blob.from = layer
		blobs = append(blobs, blob)
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, blob.desc.Digest)
		image.History = append(image.History, ocispec.History{Created: &created, CreatedBy: "corral", Comment: config.Comment})
	}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, b := range blobs {
		manifest.Layers = append(manifest.Layers, b.desc)
	}
	configBlob := textBlob(ocispec.MediaTypeImageConfig, encode(image))
	manifest.Config, a.Config = configBlob.desc, configBlob.desc.Digest
	manifestBlob := textBlob(ocispec.MediaTypeImageManifest, encode(manifest))
	a.Manifest = manifestBlob.desc.Digest
	a.files = append(append([]archiveFile{
		{name: ocispec.ImageLayoutFile, text: encode(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})},
		{name: "index.json", text: encode(indexOf(tagged, manifestBlob.desc))},
		{name: "manifest.json", text: encode(dockerManifest(tagged, configBlob, blobs))},
		{name: "blobs/"}, {name: "blobs/sha256/"},
	}, configBlob, manifestBlob), blobs...)
	a.Size = trailer
	for i, f := range a.files {
		if f.from == nil {
			a.files[i].desc.Size = int64(len(f.text))
		}
		a.Size += block + (a.files[i].desc.Size+block-1)/block*block
	}
	return a, nil
}

// encode is v as JSON, in its one form.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T is not plain data: %v", v, err))
	}
	return text
}

func blobFile(d ocispec.Descriptor) archiveFile {
	return archiveFile{name: "blobs/sha256/" + d.Digest.Encoded(), desc: d}
}

func textBlob(mediaType string, text []byte) archiveFile {
	f := blobFile(ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text))})
	f.text = text
	return f
}

func indexOf(name reference.NamedTagged, manifest ocispec.Descriptor) ocispec.Index {
	manifest.Platform = &ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}
	manifest.Annotations = map[string]string{nameAnnotation: name.String(), ocispec.AnnotationRefName: name.Tag()}
	return ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{manifest},
	}
}

// dockerManifest is what docker load reads, of any age.
func dockerManifest(name reference.NamedTagged, config archiveFile, layers []archiveFile) any {
	type item struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	i := item{Config: config.name, RepoTags: []string{reference.FamiliarString(name)}, Layers: []string{}}
	for _, l := range layers {
		i.Layers = append(i.Layers, l.name)
	}
	return []item{i}
}

// Write writes the archive. It is an error if a layer is not what it was.
func (a *Archive) Write(ctx context.Context, w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, f := range a.files {
		h := tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: f.desc.Size, ModTime: a.created}
		if f.name[len(f.name)-1] == '/' {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := tw.WriteHeader(&h); err != nil {
			return err
		}
		if f.from == nil {
			if _, err := tw.Write(f.text); err != nil {
				return err
			}
			continue
		}
		sum := f.desc.Digest.Verifier()
		if err := f.from.WriteTar(ctx, io.MultiWriter(tw, sum)); err != nil && !errors.Is(err, tar.ErrWriteTooLong) {
			return err
		}
		if !sum.Verified() {
			return errors.New("the files changed while the image was made of them")
		}
	}
	return tw.Close()
}

// A counter counts what is written to w, until the context ends.
type counter struct {
	ctx context.Context
	w   io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// A LayerFunc writes a layer.
type LayerFunc func(ctx context.Context, w io.Writer) error

// WriteTar implements Layer.
func (f LayerFunc) WriteTar(ctx context.Context, w io.Writer) error { return f(ctx, w) }

// ReadEntry is the content of the file that r is at. h is its header.
func ReadEntry(r io.Reader, h *tar.Header, limit int64) ([]byte, error) {
	switch {
	case h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("/%s is no regular file", strings.TrimPrefix(h.Name, "/"))
	case h.Size > limit:
		return nil, fmt.Errorf("/%s has %d bytes, more than %d", strings.TrimPrefix(h.Name, "/"), h.Size, limit)
	}
	return io.ReadAll(r)
}
