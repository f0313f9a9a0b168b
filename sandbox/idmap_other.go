//go:build !linux

package sandbox

import (
	"errors"

	"github.com/corral-exec/corral/sandbox/files"
)

// idmap is Linux's.
func idmap(string, files.User, files.User) (string, func() error, error) {
	return "", nil, errors.ErrUnsupported
}
