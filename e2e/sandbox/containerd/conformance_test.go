//go:build e2e && linux

// Package containerd_test runs the conformance suite on sandboxes of
// containerd's.
package containerd_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/sandboxtest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/containerd"
	"github.com/corral-exec/corral/sandbox/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, name string, cfg sandbox.Config) {
	address := enginetest.Containerd(t).Address()
	pl := sandboxtest.Place{Name: name, Config: cfg, Engine: func() (engine.Engine, error) {
		return containerd.New(containerd.Options{Address: address})
	}}
	pl.Run(t)
}

func TestConformanceFDs(t *testing.T) {
	run(t, "containerd fds", sandbox.Config{Driver: sandbox.DriverFDs})
}

func TestConformanceFrames(t *testing.T) {
	run(t, "containerd frames", sandbox.Config{Driver: sandbox.DriverFrames})
}

func TestConformanceGVisor(t *testing.T) {
	run(t, "containerd gvisor", sandbox.Config{Runtime: sandboxtest.GVisor})
}
