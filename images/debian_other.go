//go:build !linux

package images

import (
	"context"
	"runtime"

	"github.com/corral-exec/corral"
)

func checkDebian(name string) error {
	return corral.Errorf(corral.ErrUnavailable, "build it on a Linux machine and move it with docker save and docker load, or use an image of a registry",
		"cannot build image %s: Debian's packages are not installed on %s", name, runtime.GOOS)
}

func buildDebian(_ context.Context, b building, _ Progress) (rootfs, error) {
	return nil, checkDebian(b.recipe.name)
}
