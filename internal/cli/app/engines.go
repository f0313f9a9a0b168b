package app

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/inspect"
	"github.com/corral-exec/corral/sandbox/engines"
)

// AddEngineFlag defines the flag that says which engine.
func (a *App) AddEngineFlag(cmd *cobra.Command, f *pflag.FlagSet) {
	names := []string{engines.Auto, engines.Docker, engines.Containerd, engines.Podman}
	f.Var(cmdline.Choice[string]{Value: &a.Settings.Engine, Allowed: names}, "engine", "`"+strings.Join(names, "|")+"`: what makes containers (default auto)")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
	FromEnvironment(f, "engine")
}

// EngineChoice is the engine of the commands that are about no agent.
func (a *App) EngineChoice() string {
	opt, _ := a.Options(nil) // without a configuration it is that of the flags, or auto
	return opt.EngineChoice()
}

// WithEngine connects to the engine for do, which ends with the first signal.
func (a *App) WithEngine(ctx context.Context, do func(context.Context, daemon.Engine) error) error {
	return foreground.UntilSignal(ctx, func(ctx context.Context) (err error) {
		eng, err := a.Backends.Engine(ctx, a.EngineChoice())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, eng.Close()) }()
		return do(ctx, eng)
	})
}

// Machine is what corral doctor and corral sandbox explain look at.
func (a *App) Machine() (*inspect.Machine, error) {
	p, err := a.Place()
	if err != nil {
		return nil, err
	}
	opt, err := a.Options(nil)
	return &inspect.Machine{Options: opt, Place: p, Engines: a.Engines, Progress: a.Progress()}, err
}

// Findings are those of the checks that are quick, for a gateway that runs.
func (a *App) Findings(ctx context.Context) []doctor.Finding {
	m, err := a.Machine()
	if err != nil {
		return []doctor.Finding{doctor.Failed("machine", err, "")}
	}
	found, _ := m.Checks(ctx, false)
	return found
}
