//go:build !linux

package containerd

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/sandbox/engine"
)

// An Engine is a connection to containerd; there is none on this system.
type Engine struct{ engine.Engine }

// New fails: containerd's containers are those of the machine it is on.
func New(Options) (*Engine, error) {
	return nil, corral.Errorf(errors.ErrUnsupported, "use Docker or Podman", "containerd can be used on Linux only")
}

// Ping fails.
func (*Engine) Ping(context.Context) error { return errors.ErrUnsupported }

// Versions fails.
func (*Engine) Versions(context.Context) (engine.Versions, error) {
	return engine.Versions{}, errors.ErrUnsupported
}

// Images is nil.
func (*Engine) Images() images.Engine { return nil }
