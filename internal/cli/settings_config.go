package cli

import (
	"log/slog"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
)

// given reports whether a flag is on the command line, or its variable set.
func (a *app) given(name string) bool {
	if a.flags == nil {
		return false
	}
	f := a.flags.Lookup(name)
	if f == nil {
		return false
	}
	variable := f.Annotations[cmdline.EnvAnnotation]
	return f.Changed || len(variable) > 0 && a.getenv(variable[0]) != ""
}

// options are what a gateway or node is made by that the configuration does not say.
func (a *app) options(log *slog.Logger) (daemon.Options, error) {
	file, err := a.configFile()
	return daemon.Options{
		Config: file, Settings: a.settings, Given: a.given,
		Environ: a.environ, Backends: a.backends, Version: a.versionInfo().Version, Log: log,
	}, err
}

// settingsOf are the settings with what the configuration says where no flag
// does.
func (a *app) settingsOf(c config.Agent) daemon.Settings {
	return (&daemon.Options{Settings: a.settings, Given: a.given}).SettingsOf(c)
}

// configure completes the settings with what the configuration says of an agent.
func (a *app) configure(agent string) error {
	c, err := a.config()
	if err != nil {
		return err
	}
	of := c.Agent(agent)
	a.settings, a.defaults = a.settingsOf(of), of.Tools.Exec
	return a.settings.Complete()
}
