//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Off Linux the engine runs in a machine of its own: sandboxes are reached by
// messages, and one program at a time uses a state directory.

func (b *box) acceptWarden(context.Context, engine.Container) (wire.Conn, error) {
	return nil, corral.Errorf(corral.ErrUnavailable, "use the driver frames, or auto", "descriptors can be passed to a sandbox on Linux only")
}

func (b *box) exclusive(_ context.Context, stream io.ReadWriteCloser) (wire.Conn, error) {
	return strictFrames(stream), nil
}

func locked(context.Context, string) (func(), error) { return func() {}, nil }

func lockBox(dir string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, boxLock))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoBox
	}
	return f, err
}

func (b *box) alone() (bool, error) { return true, nil }

func (b *box) share() error { return nil }
