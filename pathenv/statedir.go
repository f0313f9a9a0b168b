package pathenv

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/corral-exec/corral"
)

// StateDir is the directory for the state of a program of that name: below
// $XDG_STATE_HOME if that is absolute, as in the XDG Base Directory Specification;
// else the machine's directory for root; else the account's. Empty: there is no home
// directory.
func StateDir(getenv func(string) string, name string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, name)
	}
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib", name)
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		var err error
		if home, err = os.UserHomeDir(); err != nil { // of other systems
			return ""
		}
	}
	return filepath.Join(home, ".local", "state", name)
}

// ProgramStateDir is the default directory for the state of a program that embeds
// Corral: the StateDir of "corral-" and the program's name. It differs from that of the
// program corral, whose gateway keeps other commands there.
func ProgramStateDir() (string, error) {
	if dir := StateDir(os.Getenv, "corral-"+programName(os.Args)); dir != "" {
		return dir, nil
	}
	return "", corral.Errorf(corral.ErrInvalid, "set StateDir, or HOME", "no directory for the state of commands: HOME is not set")
}

func programName(args []string) string {
	name := ""
	if len(args) > 0 {
		name = filepath.Base(args[0])
	}
	if runtime.GOOS == "windows" {
		name = strings.TrimSuffix(name, ".exe")
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, name)
	if strings.Trim(name, ".") == "" {
		return "program"
	}
	return name
}
