package app

import (
	"errors"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
)

// Config reads the configuration. Without a file it is the default one, unless
// the file was named.
func (a *App) Config() (*config.Config, error) {
	f, err := a.ConfigFile()
	if err != nil {
		return nil, err
	}
	return f.Load()
}

// ConfigFile is where the configuration is. The variable sets the flag.
func (a *App) ConfigFile() (daemon.ConfigFile, error) {
	return daemon.FindConfig(a.ConfigFlag, func(name string) string {
		if name == "CORRAL_CONFIG" {
			return ""
		}
		return a.Getenv(name)
	})
}

// DefaultConfig is the file if neither --config nor CORRAL_CONFIG says so.
func (a *App) DefaultConfig() string {
	f, _ := a.ConfigFile() // it says that without an error
	return f.Default
}

// WritableConfig is the file, for what needs a place.
func (a *App) WritableConfig() (string, error) {
	f, err := a.ConfigFile()
	if err == nil && f.Path == "" {
		err = corral.Errorf(corral.ErrInvalid, "give --config or set CORRAL_CONFIG", "no place for a configuration: HOME is not set")
	}
	return f.Path, err
}

// Mistakes are the lines about a configuration that is not right, as compilers
// write them; none for another error.
func Mistakes(err error) []string {
	bad, ok := errors.AsType[*config.Error](err)
	if !ok {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(bad.Error(), "\n") {
		lines = append(lines, "corral: "+words.OneLine(line))
	}
	return lines
}

// sandboxHint names the command that finds more, if a mistake is about a sandbox:
// refusals are found only after the file was read.
func sandboxHint(err error) string {
	if bad, ok := errors.AsType[*config.Error](err); ok && slices.ContainsFunc(bad.Mistakes, func(m config.Mistake) bool {
		return strings.HasPrefix(m.Key, "sandbox.") || strings.Contains(m.Key, ".sandbox.")
	}) {
		return "corral sandbox explain shows what else a sandbox is refused"
	}
	return ""
}
