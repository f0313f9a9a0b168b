//go:build e2e && linux

package escape_test

import (
	"context"
	"os"
	"testing"

	"github.com/corral-exec/corral/internal/test/enginetest"
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

// podmanHost is the variable by which a process of the test uses the Podman that
// the test has started.
const podmanHost = "CORRAL_TEST_PODMAN_HOST"

func openPodman(t *testing.T) weakener {
	host := os.Getenv(podmanHost)
	if host == "" {
		host = enginetest.Podman(t)
		t.Setenv(podmanHost, host)
	}
	eng, err := docker.New(docker.Options{Name: "podman", Host: host})
	must(t, err)
	t.Cleanup(func() { must(t, eng.Close()) })
	return podmanEngine{eng}
}

func (podmanEngine) weaken(_ context.Context, t *testing.T, _ string, with control) {
	t.Helper()
	t.Fatalf("%s: there is no such container on Podman", with.weakening)
}
