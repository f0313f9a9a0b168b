package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral"
)

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
				return Directory{Path: real, Root: "/"}, "/.", nil
			}
			if real != abs {
				abs = real
			}
		}
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return nil, "", noDirectory(filepath.Dir(abs), err)
	}
	if filepath.Dir(abs) == abs {
		return Directory{Path: abs, Root: "/"}, "/", nil
	}
	return Directory{Path: parent, Root: "/"}, "/" + filepath.Base(abs) + tail, nil
}

// noDirectory says why a directory of this machine cannot be found.
func noDirectory(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return corral.Errorf(corral.ErrNotFound, "make it first, or name another", "there is no directory %s", dir)
	}
	why := err
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		why = fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return corral.Errorf(corral.ErrNotFound, "", "cannot find the directory %s: %w", dir, why)
}
