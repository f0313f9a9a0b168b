//go:build !linux

package diskimage

import (
	"context"
	"errors"
)

var errLinux = errors.New("what limits it is on Linux only")

func Check() error                              { return errLinux }
func Partial(file string) string                { return file + ".new" }
func Make(context.Context, string, int64) error { return errLinux }
func Mount(file, dir string) error              { return errLinux }
func IsMounted(string) (bool, error)            { return false, nil }
func Unmount(string) error                      { return nil }
func Mounts() ([]Mounted, error)                { return nil, nil }
