package images

import (
	"context"
	"errors"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
)

// Engine is what this package needs of a container engine; *client.Client of
// github.com/docker/docker/client has it.
type Engine interface {
	ServerVersion(ctx context.Context) (types.Version, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageList(ctx context.Context, opts image.ListOptions) ([]image.Summary, error)
	ImagePull(ctx context.Context, ref string, opts image.PullOptions) (io.ReadCloser, error)
	ImageImport(ctx context.Context, src image.ImportSource, ref string, opts image.ImportOptions) (io.ReadCloser, error)
	ImageRemove(ctx context.Context, ref string, opts image.RemoveOptions) ([]image.DeleteResponse, error)
}

var _ Engine = (*client.Client)(nil)

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
	case cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err):
		return corral.Errorf(corral.ErrDenied, "", "cannot %s: %w", doing, err)
	case cerrdefs.IsInvalidArgument(err), cerrdefs.IsNotFound(err), cerrdefs.IsConflict(err):
		return corral.Errorf(corral.ErrInvalid, "", "cannot %s: %w", doing, err)
	}
	return corral.Errorf(corral.ErrUnavailable, "", "cannot %s: %w", doing, err)
}
