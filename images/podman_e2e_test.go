//go:build e2e && linux

package images_test

import (
	"errors"
	"testing"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox/docker"
)

// Podman describes the steps of an image in another way than Docker does. Corral's own images
// are listed and removed there as well.
func TestPodmanOwnImages(t *testing.T) {
	e, err := docker.New(docker.Options{Name: "podman", Host: enginetest.Podman(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	store := images.Store{Engine: e.Images(), Dir: t.TempDir()}
	list, err := store.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Ref != images.Busybox || list[0].Stale {
		t.Errorf("%+v, %v", list, err)
	}
	if err := store.Remove(t.Context(), images.Busybox); err != nil {
		t.Error(err)
	}
	if err := store.Remove(t.Context(), images.Busybox); !errors.Is(err, images.ErrNoImage) {
		t.Errorf("removed twice: %v", err)
	}
}
