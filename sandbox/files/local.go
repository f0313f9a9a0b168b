package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral"
)

// local is what a directory is to messages that is not a sandbox's: they have names as
// they were written, and no hints about sandboxes.
type local struct {
	name    string // in the directory, absolute and clean
	written string // what was written for that
}

// localOf is nil for files of a sandbox.
func localOf(f FS) *local {
	d, _ := f.(Directory)
	return d.local
}

// show is a name as it can stand in a message.
func (l *local) show(name string) string {
	if l == nil {
		return show(name)
	}
	rel, ok := below(l.name, path.Clean(name))
	switch {
	case !ok:
		return show(filepath.Join(filepath.Dir(l.written), name))
	case rel == ".":
		return show(l.written)
	}
	return show(filepath.Join(l.written, rel))
}

// Local returns the directory of this machine that has name in it, with links on the
// way followed, and the path of name in that directory.
func Local(name string) (FS, string, error) {
	tail := ""
	for _, t := range []string{"/.", "/"} { // which say something, and go with Abs
		if strings.HasSuffix(name, t) {
			tail = t
			break
		}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, "", corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell where %s is: %w", name, err)
	}
	// The last element is followed as well where it is meant as a directory.
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		if info, err := os.Stat(real); err == nil && info.IsDir() {
			if tail == "/." {
				return localDirectory(real, "/.", name)
			}
			if real != abs {
				abs = real
			}
		}
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return nil, "", noDirectory(filepath.Dir(filepath.Clean(name)), err)
	}
	if filepath.Dir(abs) == abs {
		return localDirectory(abs, "/", name)
	}
	return localDirectory(parent, "/"+filepath.Base(abs)+tail, name)
}

func localDirectory(dir, name, written string) (FS, string, error) {
	return Directory{Path: dir, Root: "/", local: &local{path.Clean(name), written}}, name, nil
}

// noDirectory says why a directory of this machine cannot be found.
func noDirectory(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return corral.Errorf(corral.ErrNotFound, "make it first, or name another", "there is no directory %s", dir)
	}
	why := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		why = fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return corral.Errorf(corral.ErrNotFound, "", "cannot find the directory %s: %w", dir, why)
}
