package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	file, named, err := a.configFile()
	if err != nil {
		return nil, err
	}
	if file == "" {
		return config.Default(), nil
	}
	if _, err := os.Stat(file); named && errors.Is(err, fs.ErrNotExist) {
		return nil, corral.Errorf(corral.ErrInvalid, "corral init makes one", "there is no configuration %s", file)
	}
	return config.Load(file)
}

// configFile is where the configuration is, and whether somebody said so, so
// that it has to be there. It is empty if there is no place for one.
func (a *app) configFile() (file string, named bool, err error) {
	if a.configFlag == "" {
		return a.defaultConfig(), false, nil
	}
	file, err = filepath.Abs(a.configFlag)
	if err != nil {
		return "", false, corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell where the configuration %s is: %w", a.configFlag, err)
	}
	return file, true, nil
}

// writableConfig is configFile for what needs a place.
func (a *app) writableConfig() (string, error) {
	file, _, err := a.configFile()
	if err == nil && file == "" {
		err = corral.Errorf(corral.ErrInvalid, "give --config or set CORRAL_CONFIG", "no place for a configuration: HOME is not set")
	}
	return file, err
}

// defaultConfig is the file if neither --config nor CORRAL_CONFIG says so.
func (a *app) defaultConfig() string {
	getenv := func(name string) string {
		if name == "CORRAL_CONFIG" { // it sets the flag
			return ""
		}
		return a.getenv(name)
	}
	home := a.getenv("HOME")
	if !filepath.IsAbs(home) {
		home = daemon.AccountHome()
	}
	return config.DefaultPath(getenv, os.Geteuid(), home)
}

// mistakes are the lines about a configuration that is not right, as compilers
// write them; none for another error.
func mistakes(err error) []string {
	var bad *config.Error
	if !errors.As(err, &bad) {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(bad.Error(), "\n") {
		lines = append(lines, "corral: "+words.OneLine(line))
	}
	return lines
}

// sandboxHint says who knows what else is wrong, if a mistake is about a sandbox:
// what it is refused is judged after the file was read.
func sandboxHint(err error) string {
	var bad *config.Error
	if errors.As(err, &bad) && slices.ContainsFunc(bad.Mistakes, func(m config.Mistake) bool {
		return strings.HasPrefix(m.Key, "sandbox.") || strings.Contains(m.Key, ".sandbox.")
	}) {
		return "corral sandbox explain shows what else a sandbox is refused"
	}
	return ""
}

// show writes the text that was asked for.
func (a *app) show(text string) error {
	if _, err := fmt.Fprintln(a.stdout, text); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}
