package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/corral-exec/corral"
)

// Ensure makes sure that the engine has the image ref: a name, a name with a
// digest, or the ID of an image that it has. What is there is left alone;
// Corral's own images are built when they are missing or stale; any other is
// pulled. A stale image is used as it is, with a warning, on a machine that
// cannot build.
func (s Store) Ensure(ctx context.Context, ref string, progress Progress) (Image, error) {
	img, found, err := s.lookup(ctx, ref)
	if err != nil {
		return Image{}, err
	}
	report := progress.serial(ref)
	r, ours, err := own(ref)
	switch {
	case found && (err != nil || !ours):
		return img, nil
	case err != nil:
		return Image{}, err
	case !ours:
		return s.pull(ctx, ref, report)
	case found && r.current(img):
		return img, nil
	}
	if err := r.check(); err != nil {
		if !found || img.Recipe == "" {
			return Image{}, err
		}
		report(Event{Phase: PhaseInstall, Warning: true, Message: fmt.Sprintf("image %s is of an older recipe and is used as it is: %v", ref, err)})
		return img, nil
	}
	return s.build(ctx, r, false, report)
}

// Build builds one of Corral's own images, also if the engine has it already:
// with the packages as they are now. The image it replaces is removed unless a
// container uses it.
func (s Store) Build(ctx context.Context, name string, progress Progress) (Image, error) {
	r, ours, err := own(name)
	if err != nil {
		return Image{}, err
	}
	if !ours {
		return Image{}, corral.Errorf(corral.ErrInvalid, "Corral's images are "+strings.Join(Own(), ", "), "cannot build image %s: it is not one of Corral's own", name)
	}
	if _, ok := r.content.(debianContent); s.Pins != nil && !ok {
		return Image{}, corral.Errorf(corral.ErrInvalid, "build it without a list of packages", "cannot build image %s of packages that are listed: it is not made of packages", name)
	}
	if err := r.check(); err != nil {
		return Image{}, err
	}
	return s.build(ctx, r, true, progress.serial(name))
}

// build makes the image of r, one build at a time on this machine. Unless
// again, it is content with an image that was built in the meantime.
func (s Store) build(ctx context.Context, r recipe, again bool, report Progress) (_ Image, err error) {
	if err := s.checkArch(ctx, r); err != nil {
		return Image{}, err
	}
	unlock, err := lock(ctx, s.Dir, func() {
		report(Event{Phase: PhaseWait, Message: "waiting for another build of images on this machine"})
	})
	if err != nil {
		return Image{}, fmt.Errorf("cannot build image %s: %w", r.name, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()

	previous, found, err := s.lookup(ctx, r.name)
	if err != nil {
		return Image{}, err
	}
	if found && !again && r.current(previous) {
		return previous, nil
	}
	if err := s.buildLocked(ctx, r, previous, report); err != nil {
		return Image{}, err
	}
	img, built, err := s.lookup(ctx, r.name)
	if err == nil && (!built || !r.current(img)) {
		err = corral.Errorf(corral.ErrUnavailable, "try again", "image %s was built, and the engine has another one or none", r.name)
	}
	if err != nil {
		return Image{}, err
	}
	if found && previous.Recipe != "" && previous.ID != img.ID {
		s.drop(ctx, previous, report)
	}
	return img, nil
}

// buildLocked builds the image of r and gives it to the engine, unless that has
// the very same as previous.
func (s Store) buildLocked(ctx context.Context, r recipe, previous Image, report Progress) (err error) {
	epoch, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	fs, err := r.build(ctx, building{recipe: r, dir: s.Dir, pins: s.Pins, epoch: epoch}, report)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("cannot build image %s: %w", r.name, context.Cause(ctx))
		}
		return err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	archive, err := NewArchive(ctx, r.name, r.image(), fs.Created(), fs.Layers()...)
	if err != nil {
		return fmt.Errorf("cannot import image %s: %w", r.name, err)
	}
	if previous.ID == archive.Config.String() || previous.ID == archive.Manifest.String() {
		return nil
	}
	return s.load(ctx, r.name, archive, report)
}

// sourceDate is what reproducible-builds.org/specs/source-date-epoch has callers
// say: no file is younger. Zero if they say nothing.
func sourceDate(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n <= 0 || n > 1<<33 {
		return time.Time{}, corral.Errorf(corral.ErrInvalid, "set it to seconds since 1970, or unset it", "SOURCE_DATE_EPOCH is %q", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// drop removes the image that a build took the name from. That it cannot be
// removed does not make the build a failure; the image stays listed.
func (s Store) drop(ctx context.Context, old Image, report Progress) {
	if len(old.Tags) > 1 { // it had another name, given by a person
		return
	}
	ours, err := s.built(ctx, old)
	if ours {
		err = s.Engine.RemoveImage(ctx, old.ID)
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		report(Event{Phase: PhaseImport, Warning: true, Message: clean(fmt.Sprintf("the previous image %s is kept: %v", old.ID, err), maxText)})
	}
}

// checkArch makes sure that the engine can run what this machine builds.
func (s Store) checkArch(ctx context.Context, r recipe) error {
	os, arch, err := s.Engine.Platform(ctx)
	if err != nil {
		return engineError(ctx, "ask the engine for its version", err)
	}
	if os != "linux" || arch != runtime.GOARCH {
		return corral.Errorf(corral.ErrUnavailable, "build it on a machine like the engine's, or use an image of a registry",
			"cannot build image %s: the engine runs %s/%s, this machine is %s/%s", r.name, os, arch, runtime.GOOS, runtime.GOARCH)
	}
	return nil
}
