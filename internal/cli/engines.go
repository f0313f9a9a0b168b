package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/sandbox/engines"
)

// addEngineFlag defines the flag that says which engine.
func (a *app) addEngineFlag(cmd *cobra.Command, f *pflag.FlagSet) {
	names := []string{engines.Auto, engines.Docker, engines.Containerd, engines.Podman}
	f.Var(cmdline.Choice[string]{Value: &a.settings.Engine, Allowed: names}, "engine", "`"+strings.Join(names, "|")+"`: what makes containers (default auto)")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
	fromEnvironment(f, "engine")
}

// engineChoice is the engine of the commands that are about no agent.
func (a *app) engineChoice() string {
	opt, _ := a.options(nil) // without a configuration it is that of the flags, or auto
	return opt.EngineChoice()
}
