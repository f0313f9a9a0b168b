package images

import (
	"archive/tar"
	"context"
	"io"
	"testing"

	"github.com/docker/docker/api/types/registry"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noCredentials(context.Context, string) (registry.AuthConfig, error) {
	return registry.AuthConfig{}, nil
}

// endless is a root file system whose second file never ends; stop is called
// when a good part of it is written.
type endless struct{ stop func() }

func (endless) Size() int64  { return 1 << 40 }
func (endless) Close() error { return nil }

func (e endless) WriteTar(ctx context.Context, w io.Writer) error {
	first := fileEntry("first", 0o644, []byte("text"), testTime)
	second := entry{
		Header: tar.Header{Typeflag: tar.TypeReg, Name: "second", Size: 1 << 40, ModTime: testTime},
		open:   func() (io.ReadCloser, error) { return io.NopCloser(&zeros{stop: e.stop}), nil },
	}
	return writeTar(ctx, w, []entry{first, second}, testTime)
}

type zeros struct {
	n    int
	stop func()
}

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	if z.n += len(p); z.n > 8<<20 {
		z.stop()
	}
	return len(p), nil
}
