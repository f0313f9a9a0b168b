package app

import (
	"log/slog"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
)

// Given reports whether a flag is on the command line, or its variable set.
func (a *App) Given(name string) bool {
	if a.Flags == nil {
		return false
	}
	f := a.Flags.Lookup(name)
	if f == nil {
		return false
	}
	variable := f.Annotations[cmdline.EnvAnnotation]
	return f.Changed || len(variable) > 0 && a.Getenv(variable[0]) != ""
}

// Options are what a gateway or node is made by that the configuration does not say.
func (a *App) Options(log *slog.Logger) (daemon.Options, error) {
	file, err := a.ConfigFile()
	return daemon.Options{
		Config: file, Settings: a.Settings, Given: a.Given,
		Environ: a.Environ, Backends: a.Backends, Version: daemon.Version(a.Version).Version, Log: log,
	}, err
}

// settingsOf are the settings with what the configuration says where no flag
// does.
func (a *App) settingsOf(c config.Agent) daemon.Settings {
	return (&daemon.Options{Settings: a.Settings, Given: a.Given}).SettingsOf(c)
}

// Configure completes the settings with what the configuration says of an agent.
func (a *App) Configure(agent string) error {
	c, err := a.Config()
	if err != nil {
		return err
	}
	of := c.Agent(agent)
	a.Settings, a.Defaults = a.settingsOf(of), of.Tools.Exec
	return a.Settings.Complete()
}
