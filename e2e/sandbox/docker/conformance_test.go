//go:build e2e

// Package docker_test runs the conformance suite on sandboxes of Docker's, by
// each driver that the engine has for every image, and behind a Router.
package docker_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/test/sandboxtest"
	"github.com/corral-exec/corral/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformanceFDs(t *testing.T) {
	(&sandboxtest.Place{Name: "sandbox fds", Config: sandbox.Config{Driver: sandbox.DriverFDs}}).Run(t)
}

func TestConformanceFrames(t *testing.T) {
	(&sandboxtest.Place{Name: "sandbox frames", Config: sandbox.Config{Driver: sandbox.DriverFrames}}).Run(t)
}

func TestConformanceSnapshotFDs(t *testing.T) {
	(&sandboxtest.Place{Name: "sandbox fds, login snapshot", Config: sandbox.Config{Driver: sandbox.DriverFDs, Environment: sandbox.Environment{Snapshot: true}}}).Run(t)
}

func TestConformanceRouterFDs(t *testing.T) {
	(&sandboxtest.Place{Name: "router, sandbox fds", Config: sandbox.Config{Driver: sandbox.DriverFDs}, Router: true}).Run(t)
}

func TestConformanceRouterFrames(t *testing.T) {
	(&sandboxtest.Place{Name: "router, sandbox frames", Config: sandbox.Config{Driver: sandbox.DriverFrames}, Router: true}).Run(t)
}

func TestImageExec(t *testing.T) {
	(&sandboxtest.Place{Config: sandbox.Config{Driver: sandbox.DriverExec}}).RunImage(t)
}

func TestImageSnapshotFrames(t *testing.T) {
	(&sandboxtest.Place{Config: sandbox.Config{Driver: sandbox.DriverFrames, Environment: sandbox.Environment{Snapshot: true}}}).RunImage(t)
}
