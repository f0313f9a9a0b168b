//go:build linux

package containerd

import (
	"context"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Check implements engine.Checker. The kernel takes any number of processors.
func (e *Engine) Check(_ context.Context, s engine.Spec) ([]engine.Lack, error) {
	var lacks []engine.Lack
	if s.Runtime != "" && !strings.HasPrefix(s.Runtime, shimPrefix) {
		if _, err := findProgram(s.Runtime); err != nil {
			lacks = append(lacks, engine.Lack{Of: engine.PartRuntime, Err: noRuntime(s.Runtime)})
		}
	}
	if s.Network != "" {
		lacks = append(lacks, engine.Lack{Of: engine.PartNetwork, Err: noNetwork(s.Network)})
	}
	return lacks, nil
}

// shimPrefix begins the names of shims, which containerd looks for.
const shimPrefix = "io.containerd."

func noRuntime(name string) error {
	return corral.Errorf(corral.ErrInvalid, "install it, or choose another with --runtime; `corral doctor` lists those that there are", "there is no runtime %s on this machine", name)
}

func noNetwork(name string) error {
	return corral.Errorf(corral.ErrInvalid, "leave it out, or use Docker or Podman", "the engine has no network %s: with containerd a sandbox has none", name)
}
