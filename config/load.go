package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/json5"
)

// Load reads a file; a missing one is [Default] with its name. The error is an
// *Error for what is in the file, and otherwise says why it cannot be read or
// must not be: one that every user can write to is refused.
func Load(path string) (*Config, error) {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty(path), nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// read reads a file that may be taken for the configuration.
func read(path string) (data []byte, err error) {
	// Opening a named pipe would block until another program writes to it.
	if info, err := os.Stat(path); err == nil {
		if err := trusted(path, info); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "make it readable for this user", "cannot read the configuration: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	if err := trusted(path, info); err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(f, json5.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration %s: %w", path, err)
	}
	return data, nil
}

func trusted(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return corral.Errorf(corral.ErrInvalid, "name a file", "the configuration %s is no regular file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0:
		return corral.Errorf(corral.ErrDenied, "chmod o-w "+path, "every user of this machine can write to the configuration %s (%v)", path, info.Mode().Perm())
	}
	return nil
}

// DefaultPath is where the file is if no other is named: $CORRAL_CONFIG;
// corral/corral.json5 in $XDG_CONFIG_HOME, of root in /etc, and else in
// ~/.config. It is empty if there is no home directory either. A relative
// $XDG_CONFIG_HOME counts as none, by its specification.
func DefaultPath(getenv func(string) string, uid int, home string) string {
	const name = "corral/corral.json5"
	if path := getenv("CORRAL_CONFIG"); path != "" {
		return path
	}
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, name)
	}
	if uid == 0 {
		return filepath.Join("/etc", name)
	}
	if !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".config", name)
}

// ExpandHome is a path of the file, or a bind, with a leading ~ put in full. That
// of another user is left as it is.
func ExpandHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || rest[0] == ':') {
		return home + rest
	}
	return path
}

// FirstLine is an error as one line. Of mistakes in a file it is the first, and
// how many more there are.
func FirstLine(err error) string {
	bad, ok := errors.AsType[*Error](err)
	if !ok {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return line
	}
	line := bad.File + ":" + bad.Mistakes[0].String()
	if more := len(bad.Mistakes) - 1; more > 0 {
		line += fmt.Sprintf(" (and %d more)", more)
	}
	return line
}
