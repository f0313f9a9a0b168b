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

// large is a layer of one file of so many zeros.
func large(size int64) Layer { return zeroLayer(size, func() {}) }

// endless is a layer of a file that never ends; stop is called when a good part
// of it is written.
func endless(stop func()) Layer { return zeroLayer(1<<40, stop) }

func zeroLayer(size int64, stop func()) Layer {
	return tree{[]entry{{
		Header: tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: size, ModTime: testTime},
		open:   func() (io.ReadCloser, error) { return io.NopCloser(io.LimitReader(&zeros{stop: stop}, size)), nil },
	}}, testTime}
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
