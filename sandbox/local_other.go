//go:build !linux

package sandbox

import (
	"context"
	"io"
	"os"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/wire"
)

// Off Linux the engine runs in a machine of its own: sandboxes are reached by
// messages, and one program at a time uses a state directory.

func (e *Executor) acceptWarden(context.Context, Container) (wire.Conn, error) {
	return nil, corral.Errorf(corral.ErrUnavailable, "use the driver frames, or auto", "descriptors can be passed to a sandbox on Linux only")
}

func (e *Executor) exclusive(_ context.Context, stream io.ReadWriteCloser) (wire.Conn, error) {
	return strictFrames(stream), nil
}

func (e *Executor) lock(context.Context) (func(), error) { return func() {}, nil }

func lockOwner(string, bool) (*os.File, error) { return nil, nil }

func (e *Executor) unlockOwner() {}

func ownerLives(string) bool { return true }

func (c *Config) owner() string { return nobody }

func ownerOf(string) (int, bool) { return 0, false }
