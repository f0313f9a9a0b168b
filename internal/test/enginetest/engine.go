// Package enginetest gives tests the Docker engine of this machine. It is for
// tests alone, and fails them where there is none.
package enginetest

import (
	"testing"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/sandbox/docker"
)

// New returns the engine, with the image images.Busybox there. It is closed when
// t ends.
func New(t testing.TB) *docker.Engine {
	t.Helper()
	engine, err := docker.New(docker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, engine)
	return engine
}

// prepare gets an engine the image images.Busybox, and closes it when t ends.
func prepare(t testing.TB, engine interface {
	Images() images.Engine
	Close() error
}) {
	t.Helper()
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	store := images.Store{Engine: engine.Images()}
	if _, err := store.Ensure(t.Context(), images.Busybox, nil); err != nil {
		t.Fatal(err)
	}
}
