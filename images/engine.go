package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
)

// Engine is what this package needs of a container engine: see [Docker], and
// package sandbox/containerd. Its errors are sorted in the terms of
// github.com/containerd/errdefs, or are those of Corral's contract.
type Engine interface {
	// Platform is what the engine runs, as Go names it.
	Platform(ctx context.Context) (os, arch string, err error)
	// Image finds an image by its name or ID; not found if there is none.
	Image(ctx context.Context, ref string) (EngineImage, error)
	// Images are those that have a label of that name.
	Images(ctx context.Context, label string) ([]EngineImage, error)
	// LastStep is the comment of the last step in the history of an image, which
	// those that are built on it have more of.
	LastStep(ctx context.Context, id string) (string, error)
	// Pull gets an image from its registry. The zero AuthConfig is none.
	// report may be called until Pull returns, from one goroutine at a time.
	Pull(ctx context.Context, ref reference.Named, auth registry.AuthConfig, report func(Transfer)) error
	// Load stores the image that an Archive writes and gives it the name that
	// is in there, which another image may lose by that. One that does not
	// succeed leaves nothing.
	Load(ctx context.Context, archive io.Reader) error
	// ReadFile is the content of a regular file of an image, by its absolute
	// path; not found if there is no such image or file, and an error if it
	// has more than limit bytes. No container is started for it.
	ReadFile(ctx context.Context, ref, path string, limit int64) ([]byte, error)
	// RemoveImage removes an image by its name or ID: not found if there is
	// none, conflict if a container uses it.
	RemoveImage(ctx context.Context, ref string) error
}

// An EngineImage is an image as the engine sees it.
type EngineImage struct {
	ID      string // says exactly which image it is: "sha256:…"
	Tags    []string
	Labels  map[string]string
	Arch    string // as Go names it; may be empty from Images
	Size    int64  // bytes on disk, unpacked
	Created time.Time
}

// An ImageConfig says how programs of an image are run.
type ImageConfig struct {
	Env     []string // NAME=VALUE
	Dir     string   // working directory
	Cmd     []string
	User    string // uid:gid
	Labels  map[string]string
	Comment string // where it comes from
}

// A Transfer is how far a part of a pull is. What is in it may come from a
// registry, and is not to be trusted.
type Transfer struct {
	Status         string
	Item           string // a layer
	Current, Total int64  // bytes; Total is 0 when it is not known
}

// engineError is err of an engine's method, said as "cannot <doing>: …". It is
// for the errors that any method may return; not-found is the caller's.
func engineError(ctx context.Context, doing string, err error) error {
	var known *corral.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		// The client wraps a cancelled request in words about its transport.
		return fmt.Errorf("cannot %s: %w", doing, context.Cause(ctx))
	case client.IsErrConnectionFailed(err):
		return corral.Errorf(corral.ErrUnavailable, "start the container engine, or set DOCKER_HOST to where it listens; its socket must be accessible to this user",
			"cannot %s: the container engine does not answer: %w", doing, err)
	case errors.Is(err, context.DeadlineExceeded): // the client's own
		return corral.Errorf(corral.ErrUnavailable, "see whether it answers (docker info, podman info), and restart it if it does not",
			"cannot %s: the container engine did not answer in time", doing)
	case cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err):
		return corral.Errorf(corral.ErrDenied, "", "cannot %s: %w", doing, err)
	case cerrdefs.IsInvalidArgument(err), cerrdefs.IsNotFound(err), cerrdefs.IsConflict(err):
		return corral.Errorf(corral.ErrInvalid, "", "cannot %s: %w", doing, err)
	}
	return corral.Errorf(corral.ErrUnavailable, "", "cannot %s: %w", doing, err)
}
