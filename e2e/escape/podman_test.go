//go:build e2e && linux

package escape_test

import (
	"context"
	"testing"

	"github.com/corral-exec/corral/internal/enginetest"
	"github.com/corral-exec/corral/sandbox/docker"
)

// TestPodman makes all tries in a sandbox of Podman's, where all must be held. It
// has no column: that each try can succeed is shown with the same runtime on
// Docker, whose weakened containers Podman does not make from the same request.
func TestPodman(t *testing.T) {
	tg := target{name: "podman", open: openPodman}
	s := newSite(t)
	t.Setenv(hostVar, s.secret)
	eng := tg.open(t)
	s.product(t, s.sandbox(t, eng, tg), tg, eng)
}

// podmanEngine makes no weakened containers.
type podmanEngine struct{ *docker.Engine }

func openPodman(t *testing.T) engine {
	eng, err := docker.New(docker.Options{Name: "podman", Host: enginetest.Podman(t)})
	must(t, err)
	t.Cleanup(func() { must(t, eng.Close()) })
	return podmanEngine{eng}
}

func (podmanEngine) weaken(_ context.Context, t *testing.T, _ string, with control) {
	t.Helper()
	t.Fatalf("%s: there is no such container on Podman", with.weakening)
}
