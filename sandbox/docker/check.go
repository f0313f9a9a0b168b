package docker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Check implements engine.Checker.
func (e *Engine) Check(ctx context.Context, s engine.Spec) ([]engine.Lack, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return nil, err
	}
	var lacks []engine.Lack
	lack := func(of engine.Part, hint, format string, args ...any) {
		lacks = append(lacks, engine.Lack{Of: of, Err: corral.Errorf(corral.ErrInvalid, hint, format, args...)})
	}
	// A name with a dot or a slash in it is a shim's or a program's: the engine has
	// no list of those.
	if s.Runtime != "" && !strings.ContainsAny(s.Runtime, "./") && !slices.Contains(info.Runtimes, s.Runtime) {
		where := `"runtimes" of /etc/docker/daemon.json`
		if info.Name == podman {
			where = "[engine.runtimes] of /etc/containers/containers.conf"
		}
		has := slices.Sorted(slices.Values(info.Runtimes))
		lack(engine.PartRuntime, "install it and add it to "+where+", or use one that the engine has", "the engine has no runtime %s: it has %s", s.Runtime, strings.Join(has, ", "))
	}
	// Podman takes any number.
	if n := info.CPUs; n > 0 && s.CPUs > float64(n) && info.Name != podman {
		lack(engine.PartCPUs, "use fewer, or unlimited", "the engine's machine has %d processors, and no container with %g of them is made", n, s.CPUs)
	}
	if s.Network != "" {
		err := e.checkNetwork(ctx, container.NetworkMode(s.Network))
		var refused *boundary.Refusal
		switch {
		case errors.Is(err, corral.ErrInvalid), errors.As(err, &refused):
			lacks = append(lacks, engine.Lack{Of: engine.PartNetwork, Err: err})
		case err != nil:
			return lacks, err
		}
	}
	return lacks, nil
}
