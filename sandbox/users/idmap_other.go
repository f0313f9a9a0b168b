//go:build !linux

package users

import (
	"errors"

	"github.com/corral-exec/corral/sandbox/files"
)

// A Mapping is Linux's alone.
type Mapping struct{}

func NewMapping(files.User, files.User) (*Mapping, error) { return nil, errors.ErrUnsupported }

func NewRootMapping(files.User) (*Mapping, error) { return nil, errors.ErrUnsupported }

func (*Mapping) Close() error { return nil }

func (*Mapping) Mount(int, bool) (string, func() error, error) {
	return "", nil, errors.ErrUnsupported
}

func CheckMapped(string, bool) error { return errors.ErrUnsupported }
