package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/sandbox/engines"
)

// addEngineFlag defines the flag that says which engine.
func (a *app) addEngineFlag(cmd *cobra.Command, f *pflag.FlagSet) {
	names := []string{engines.Auto, engines.Docker, engines.Containerd, engines.Podman}
	f.Var(choice{&a.settings.Engine, names}, "engine", "`"+strings.Join(names, "|")+"`: what makes containers (default auto)")
	must(cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
	fromEnvironment(f, "engine")
}

// engineChoice is the engine of the commands that are about no agent.
func (a *app) engineChoice() string {
	if a.settings.Engine != "" {
		return a.settings.Engine
	}
	c, err := a.config()
	if err != nil { // which other checks and commands say
		return engines.Auto
	}
	return cmp.Or(string(c.Agent("").Sandbox.Engine.Value), engines.Auto)
}
