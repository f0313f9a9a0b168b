//go:build e2e && linux

package sandbox_test

import (
	"maps"
	"testing"

	"github.com/corral-exec/corral/internal/enginetest"
	"github.com/corral-exec/corral/internal/exectest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/containerd"
)

// onContainerd is a place of which the sandboxes are containerd's.
func onContainerd(t *testing.T, cfg sandbox.Config) *place {
	address := enginetest.Containerd(t).Address()
	return &place{cfg: cfg, engine: func(t testing.TB) engine {
		e, err := containerd.New(containerd.Options{Address: address})
		return opened(t, e, err)
	}}
}

func TestConformanceContainerdFDs(t *testing.T) {
	run(t, "containerd fds", onContainerd(t, sandbox.Config{Driver: sandbox.DriverFDs}), nil)
}

func TestConformanceContainerdFrames(t *testing.T) {
	run(t, "containerd frames", onContainerd(t, sandbox.Config{Driver: sandbox.DriverFrames}), nil)
}

func TestConformanceContainerdGVisor(t *testing.T) {
	run(t, "containerd gvisor", onContainerd(t, sandbox.Config{Runtime: "runsc"}), func(tg *exectest.Target) {
		tg.Slow = 5
		tg.Memory = 0 // a sandbox that takes all of it dies as a whole
		maps.Copy(tg.Exempt, gvisorLacks)
	})
}
