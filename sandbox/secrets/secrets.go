// Package secrets keeps the secrets of sandboxes: files that are mounted into containers,
// and whose content is in the memory of this machine alone. Neither an engine nor an
// environment, a command line or a log has it.
package secrets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/sandbox/files"
)

// A Source is where the content of a secret is from: one of the two.
type Source struct {
	File string // of this machine, absolute
	Env  string // a variable of this program's environment
}

// Dir is where commands find secrets, each in a read-only file of its name.
const Dir = "/run/secrets"

// Bounds of secrets.
const (
	maxSecrets = 64
	maxSecret  = 1 << 20 // bytes
)

var validName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// ValidName reports whether a secret can have that name.
func ValidName(name string) bool { return validName().MatchString(name) }

// Check looks at what can be told without reading them.
func Check(list map[string]Source) error {
	if len(list) > maxSecrets {
		return corral.Errorf(corral.ErrInvalid, fmt.Sprintf("use at most %d", maxSecrets), "%d secrets are too many for a sandbox", len(list))
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		s := list[name]
		switch {
		case !ValidName(name):
			return corral.Errorf(corral.ErrInvalid, "use letters, digits, '_', '.' and '-'", "%q cannot name a secret", name)
		case (s.File == "") == (s.Env == ""):
			return corral.Errorf(corral.ErrInvalid, "give one of file and env", "the secret %s has no source, or two", name)
		case s.File != "" && !filepath.IsAbs(s.File):
			return corral.Errorf(corral.ErrInvalid, "write the path in full", "the file %s of the secret %s is no absolute path", s.File, name)
		}
	}
	return nil
}

// read is a secret's content. Errors do not have it.
func read(name string, s Source) ([]byte, error) {
	if s.Env != "" {
		value, ok := os.LookupEnv(s.Env)
		if !ok {
			return nil, corral.Errorf(corral.ErrInvalid, "set it where this program is started", "there is no variable %s for the secret %s", s.Env, name)
		}
		if len(value) > maxSecret {
			return nil, tooLarge(name)
		}
		return []byte(value), nil
	}
	f, err := os.Open(s.File)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "name a file that this program can read", "cannot read the secret %s: %w", name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, corral.Errorf(corral.ErrInvalid, "name a file", "cannot read the secret %s: %s is no file", name, s.File)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "name a file that this program can read", "cannot read the secret %s: %w", name, err)
	}
	if len(b) > maxSecret {
		return nil, tooLarge(name)
	}
	return b, nil
}

func tooLarge(name string) error {
	return corral.Errorf(corral.ErrInvalid, "mount it with sandbox.binds", "the secret %s has more than %d bytes", name, maxSecret)
}

// dirOf is the directory of a state directory's secrets, in memory: one that does not
// outlive the machine's running, and that the next user of the machine's disk does not
// find. The directory above it is made if that is asked for.
func dirOf(stateDir string, make bool) (string, error) {
	base, err := memoryDir(make)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(stateDir))
	return filepath.Join(base, "secrets-"+hex.EncodeToString(sum[:8])), nil
}

// Place is the directory of a sandbox's secrets, which is mounted. Write makes it.
func Place(stateDir, name string) (string, error) {
	dir, err := dirOf(stateDir, true)
	return filepath.Join(dir, name), err
}

// Write writes a sandbox's secrets, for the user that commands run as. Containers that
// run see them change; one that is no longer on the list is removed.
func Write(stateDir, name string, list map[string]Source, user files.User) (err error) {
	if len(list) == 0 {
		return nil
	}
	dir, err := Place(stateDir, name)
	if err != nil {
		return err
	}
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("cannot make a directory for secrets: %w", err)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return corral.Errorf(corral.ErrUnavailable, "remove it", "%s is no directory for secrets", dir)
	}
	if os.Geteuid() != 0 {
		user = files.User{UID: -1, GID: -1} // commands run as us
		// Our own directory is not to be written to by commands either.
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("cannot write secrets: %w", err)
		}
		defer func() { err = errors.Join(err, os.Chmod(dir, 0o500)) }()
	}
	if err := os.Chown(dir, user.UID, user.GID); err != nil {
		return fmt.Errorf("cannot give the sandbox its secrets: %w", err)
	}
	old, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot look at the sandbox's secrets: %w", err)
	}
	for _, f := range old {
		if _, wanted := list[f.Name()]; !wanted {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return fmt.Errorf("cannot remove a secret: %w", err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		content, err := read(name, list[name])
		if err != nil {
			return err
		}
		// No other user can read it at any moment.
		err = atomicfile.Write(filepath.Join(dir, name), content, atomicfile.Options{
			Mode: 0o400, Prepare: func(f *os.File) error { return f.Chown(user.UID, user.GID) },
		})
		if err != nil {
			return fmt.Errorf("cannot write the secret %s: %w", name, err)
		}
	}
	return nil
}

// makeDir makes a sandbox's directory, unless it is there, and the one above it. That goes
// with the last of the sandboxes that have secrets, which may be just now.
func makeDir(dir string) (err error) {
	for range 100 {
		err = os.MkdirAll(filepath.Dir(dir), 0o711) // passed through, not looked into
		if errors.Is(err, os.ErrExist) {
			continue // another made it, and it is gone again
		}
		if err == nil {
			if err = os.Mkdir(dir, 0o500); errors.Is(err, os.ErrExist) {
				return nil
			}
		}
		if !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return err
}

// Drop removes those of a sandbox; without a name those of a state directory. That there
// are none is no error.
func Drop(stateDir, name string) error {
	top, err := dirOf(stateDir, false)
	if err != nil {
		return nil // there is no place for them, and so none
	}
	if name == "" { // one by one: each directory has to be made one that can be written to
		return Sweep(stateDir, func(string) bool { return false })
	}
	dir := filepath.Join(top, name)
	if err := os.Chmod(dir, 0o700); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot remove secrets: %w", err)
	}
	_ = os.Remove(top) // if it was the last
	return nil
}

// Sweep removes those of sandboxes that are gone.
func Sweep(stateDir string, exists func(name string) bool) error {
	top, err := dirOf(stateDir, false)
	if err != nil {
		return nil // there is no place for them, and so none
	}
	list, err := os.ReadDir(top)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range list {
		if !exists(e.Name()) {
			errs = append(errs, Drop(stateDir, e.Name()))
		}
	}
	return errors.Join(errs...)
}
