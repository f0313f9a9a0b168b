//go:build !linux

package images

import (
	"context"
	"runtime"

	"github.com/corral-exec/corral"
)

func checkDebian() error {
	return corral.Errorf(corral.ErrUnavailable, "build it on a Linux machine and move it with docker save and docker load, or use an image of a registry",
		"cannot build image %s: Debian's packages are not installed on %s", Default, runtime.GOOS)
}

func buildDebian(context.Context, string, Progress) (rootfs, error) { return nil, checkDebian() }
