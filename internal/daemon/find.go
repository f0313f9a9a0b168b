package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/pathenv"
)

// LookupEnv is the last value of a variable in an environment.
func LookupEnv(environ []string, name string) (value string, found bool) {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value, found = v, true
		}
	}
	return value, found
}

// StateDir is the state directory: the one that is named, or Corral's own. The hint
// says how one is named.
func StateDir(named, hint string, getenv func(string) string) (string, error) {
	dir := cmp.Or(named, pathenv.StateDir(getenv, "corral"))
	if dir == "" {
		return "", corral.Errorf(corral.ErrInvalid, hint, "no directory for Corral's state: HOME is not set")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot find the state directory: %w", err)
	}
	return abs, nil
}

// A ConfigFile is where a configuration is, or would be.
type ConfigFile struct {
	Path    string // empty: there is no place for one
	Named   bool   // it was asked for by name, so that it has to be there
	Default string // the one that is used if none is named
}

// FindConfig finds the configuration: the one that is named, or Corral's own.
func FindConfig(named string, getenv func(string) string) (ConfigFile, error) {
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		home = AccountHome()
	}
	f := ConfigFile{Named: named != "", Default: config.DefaultPath(getenv, os.Geteuid(), home)}
	path := cmp.Or(named, f.Default)
	if path == "" {
		return f, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return f, corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell where the configuration %s is: %w", path, err)
	}
	f.Path = abs
	return f, nil
}

// Check refuses a file that was named and is not there.
func (f ConfigFile) Check() error {
	if _, err := os.Stat(f.Path); f.Named && errors.Is(err, fs.ErrNotExist) {
		return corral.Errorf(corral.ErrInvalid, "corral init makes one", "there is no configuration %s", f.Path)
	}
	return nil
}

// Load reads the configuration. Without a file it is the default one, unless the
// file was named.
func (f ConfigFile) Load() (*config.Config, error) {
	if f.Path == "" {
		return config.Default(), nil
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return config.Load(f.Path)
}
