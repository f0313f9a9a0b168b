package app

import (
	"cmp"
	"context"
	"errors"

	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/session"
)

// KeptSandboxes calls do with the sandboxes: those of the gateway if one runs, and
// else, or if the call wants that, those of the state directory.
func (a *App) KeptSandboxes(ctx context.Context, local bool, do func(ctx context.Context, k gateway.Sandboxes, remote bool) error) error {
	return foreground.UntilSignal(ctx, func(ctx context.Context) error {
		if !local {
			c, err := a.Connect("")
			if err == nil {
				return errors.Join(do(ctx, reach.Sandboxes{Client: c}, true), c.Close())
			}
			if !errors.Is(err, reach.ErrNoGateway) {
				return err
			}
		}
		dir, err := a.StateDir()
		if err != nil {
			return err
		}
		return do(ctx, a.LocalSandboxes(dir), false)
	})
}

// LocalSandboxes are those of a state directory, without a gateway. A sandbox that
// is opened is so by the flags of this call, and the configuration of whose it is.
func (a *App) LocalSandboxes(dir string) *daemon.Sandboxes {
	return daemon.LocalSandboxes(dir, a.Backends, a.EngineChoice, func(s sandbox.Sandbox) (daemon.SandboxOptions, error) {
		given := a.Settings
		defer func() { a.Settings = given }()
		if err := a.Configure(OwnerOf(s)); err != nil {
			return daemon.SandboxOptions{}, err
		}
		return daemon.SandboxOptions{Settings: a.Settings, Progress: a.Progress()}, nil
	})
}

// OwnerOf is the agent whose configuration a sandbox is made by: corral exec's, if no
// gateway made it; none, if all agents share it.
func OwnerOf(s sandbox.Sandbox) string {
	if s.Key == "" {
		return cmp.Or(s.Owner, session.DefaultAgent)
	}
	return s.Owner
}
