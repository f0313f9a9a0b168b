package images

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"

	"github.com/corral-exec/corral"
)

// Corral's own images.
const (
	// Default is Debian with the tools that agents use: bash, git, curl,
	// Python. Sandboxes run on it unless they are told otherwise.
	Default = "corral/sandbox:bookworm"
	// Base is Debian with next to nothing: a shell, apt, the certificates
	// of authorities and time zones.
	Base = "corral/base:bookworm"
	// Common is Default with compilers: C, C++, Go, Node.js and npm, and what
	// builds Python packages.
	Common = "corral/common:bookworm"
	// Code is Default with IPython's kernel, NumPy, pandas, matplotlib and Node.js.
	Code = "corral/code:bookworm"
	// Busybox is a shell and its applets in two megabytes, for tests.
	Busybox = "corral/busybox:1"
)

// The labels of Corral's own images. Containers inherit an image's labels, so
// they are other keys than those by which the sandbox finds its containers: a
// container of others on one of these images is not Corral's.
const (
	LabelImage  = "corral.image"  // the name it was built as
	LabelRecipe = "corral.recipe" // the digest of the recipe it was built from
)

// ErrNoImage is found in the error of Remove for an image the engine does not
// have.
var ErrNoImage = errors.New("no such image")

// A Store gets images for one engine. It has no state of its own: any number
// of them, also in several processes, may work on the same engine.
type Store struct {
	Engine Engine

	// Dir is where a root file system is assembled and builds wait for
	// each other; about 500 MB for the Debian image. Empty: os.TempDir().
	Dir string

	// Credentials are those for a registry. nil: those of `docker login`,
	// by [DockerCredentials].
	Credentials Credentials

	// Pins are the packages that the Debian images are built of, in these
	// versions and no others: those of an earlier image's list, by
	// [ReadPackages]. nil: the newest.
	Pins []Package
}

// An Image is one that the engine has.
type Image struct {
	ID      string    // of the engine, "sha256:…"; says exactly which image it is
	Ref     string    // the name it was asked for by or built as
	Tags    []string  // all names it has now; none once another build took its name
	Arch    string    // as Go names it; empty from List
	Size    int64     // bytes on disk, unpacked
	Created time.Time // of Corral's own, how old the newest file is; zero if not known

	// Recipe is the digest of the recipe that an image of Corral's own was
	// built from; empty for any other.
	Recipe string
	// Stale is an image of Corral's own that is not the one this version
	// would build.
	Stale bool
}

// List returns Corral's own images, also those whose name was taken by a later
// build, by name, the newest first.
func (s Store) List(ctx context.Context) ([]Image, error) {
	found, err := s.Engine.Images(ctx, LabelImage)
	if err != nil {
		return nil, engineError(ctx, "list images", err)
	}
	list := make([]Image, 0, len(found))
	for _, f := range found {
		img := newImage(f)
		ours, err := s.built(ctx, img)
		if err != nil {
			return nil, err
		}
		if ours {
			list = append(list, img)
		}
	}
	slices.SortFunc(list, func(a, b Image) int {
		return cmp.Or(strings.Compare(a.Ref, b.Ref), b.Created.Compare(a.Created))
	})
	return list, nil
}

// Remove removes one of Corral's own images by name or ID. It refuses images
// that Corral did not build, and those that a container uses.
func (s Store) Remove(ctx context.Context, ref string) error {
	img, ok, err := s.lookup(ctx, ref)
	switch {
	case err != nil:
		return err
	case !ok:
		return corral.Errorf(corral.ErrInvalid, "list the images that there are", "cannot remove image %s: %w", ref, ErrNoImage)
	}
	ours, err := s.built(ctx, img)
	switch {
	case err != nil:
		return err
	case !ours:
		return corral.Errorf(corral.ErrInvalid, "remove it with the engine's own tools, such as docker image rm", "cannot remove image %s: Corral did not build it", ref)
	}
	err = s.Engine.RemoveImage(ctx, ref)
	if cerrdefs.IsConflict(err) {
		return corral.Errorf(corral.ErrInvalid, "remove the sandboxes that run on it first, and its other names", "cannot remove image %s: %w", ref, err)
	}
	if cerrdefs.IsNotFound(err) { // another was faster
		return nil
	}
	return engineError(ctx, "remove image "+ref, err)
}

// built reports whether Corral built an image itself. One that is built on an image of
// Corral's has the labels of that, and later steps.
func (s Store) built(ctx context.Context, img Image) (bool, error) {
	if img.Recipe == "" {
		return false, nil
	}
	step, err := s.Engine.LastStep(ctx, img.ID)
	if cerrdefs.IsNotFound(err) { // removed just now
		return false, nil
	}
	return step == builtBy(img.Recipe), engineError(ctx, "look at the history of image "+img.ID, err)
}

// lookup asks the engine for an image, which it may not have.
func (s Store) lookup(ctx context.Context, ref string) (Image, bool, error) {
	found, err := s.Engine.Image(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return Image{}, false, nil
	}
	if err != nil {
		return Image{}, false, engineError(ctx, "inspect image "+ref, err)
	}
	img := newImage(found)
	img.Ref = ref
	return img, true, nil
}

// newImage is an image that the engine has.
func newImage(e EngineImage) Image {
	img := Image{ID: e.ID, Tags: e.Tags, Arch: e.Arch, Size: e.Size, Created: e.Created}
	img.label(e.Labels)
	return img
}

// label fills in what the labels of an image of Corral's own say.
func (img *Image) label(labels map[string]string) {
	if labels[LabelImage] == "" || labels[LabelRecipe] == "" {
		return
	}
	img.Ref, img.Recipe = labels[LabelImage], labels[LabelRecipe]
	r, known := recipes[img.Ref]
	img.Stale = !known || img.Recipe != r.digest() || !slices.Contains(img.Tags, img.Ref)
}

// own finds the recipe for ref. It is an error if the name is in Corral's
// namespace and there is none: such a name must never reach a public registry,
// where any other user could have taken it.
func own(ref string) (recipe, bool, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err == nil && strings.HasPrefix(ref, "sha256:") {
		err = errors.New("it is an image's ID, and the engine does not have that image")
	}
	if err != nil {
		return recipe{}, false, corral.Errorf(corral.ErrInvalid, "write it as name:tag or registry/name:tag", "%q is not the name of an image: %w", ref, err)
	}
	familiar := reference.FamiliarString(reference.TagNameOnly(named))
	if r, ok := recipes[familiar]; ok {
		return r, true, nil
	}
	if strings.HasPrefix(familiar, "corral/") {
		return recipe{}, false, corral.Errorf(corral.ErrInvalid, "Corral's images are "+strings.Join(Own(), ", "), "there is no recipe for the image %s", ref)
	}
	return recipe{}, false, nil
}
