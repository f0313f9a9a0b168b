package daemon

import (
	"log/slog"

	"github.com/corral-exec/corral/config"
)

// Options are what a gateway or a node is made by that its configuration does not
// say.
type Options struct {
	Config ConfigFile

	// Settings are what flags and variables say of sandboxes, and Given whether one of
	// them, by the name of the flag, counts in the place of the configuration. Nil: none
	// does.
	Settings Settings
	Given    func(flag string) bool

	Environ  []string // what commands on this machine may inherit
	Backends Backends
	Version  string
	Log      *slog.Logger
}

func (o *Options) given(flag string) bool { return o.Given != nil && o.Given(flag) }

// liveConfig follows the configuration.
func (o *Options) liveConfig() (*config.Live, error) {
	return config.Open(o.Config.Path, o.Config.Named)
}

// getenv is the last value of a variable.
func (o *Options) getenv(name string) string {
	value, _ := LookupEnv(o.Environ, name)
	return value
}

// must is for what can only fail by a mistake in this package.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
