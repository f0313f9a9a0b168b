package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
)

// config reads the configuration. Without a file it is the default one, unless
// the file was named.
func (a *app) config() (*config.Config, error) {
	f, err := a.configFile()
	if err != nil {
		return nil, err
	}
	return f.Load()
}

// configFile is where the configuration is. The variable sets the flag.
func (a *app) configFile() (daemon.ConfigFile, error) {
	return daemon.FindConfig(a.configFlag, func(name string) string {
		if name == "CORRAL_CONFIG" {
			return ""
		}
		return a.getenv(name)
	})
}

// defaultConfig is the file if neither --config nor CORRAL_CONFIG says so.
func (a *app) defaultConfig() string {
	f, _ := a.configFile() // it says that without an error
	return f.Default
}

// writableConfig is the file, for what needs a place.
func (a *app) writableConfig() (string, error) {
	f, err := a.configFile()
	if err == nil && f.Path == "" {
		err = corral.Errorf(corral.ErrInvalid, "give --config or set CORRAL_CONFIG", "no place for a configuration: HOME is not set")
	}
	return f.Path, err
}

// mistakes are the lines about a configuration that is not right, as compilers
// write them; none for another error.
func mistakes(err error) []string {
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
