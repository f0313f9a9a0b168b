//go:build !linux

package sandbox

import (
	"errors"

	"github.com/corral-exec/corral/sandbox/files"
)

// Mapped IDs are Linux's.
type idmapping struct{}

func newIdmapping(files.User, files.User) (*idmapping, error) { return nil, errors.ErrUnsupported }

func (*idmapping) Close() error { return nil }

func (*idmapping) mount(int, bool) (string, func() error, error) {
	return "", nil, errors.ErrUnsupported
}

func checkIdmap(string, bool) error { return errors.ErrUnsupported }
