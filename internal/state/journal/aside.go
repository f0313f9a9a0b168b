package journal

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

const (
	asideDepth = 6       // .../sandboxes/NAME/logs/journal.damaged-TIME, and a node's part of a state directory
	maxAside   = 100     // files that Aside returns
	maxLooked  = 100_000 // directory entries that Aside checks
)

// written are the directories of a state directory in which commands or engines write:
// there are no damaged pieces there, but possibly very many files.
var written = []string{"workspaces", "boxes", "bin", "run", "exec"}

// ErrManyFiles: a state directory has more files than Aside checks.
var ErrManyFiles = errors.New("there are too many files to look at all of them")

// Aside returns the files with damaged pieces below a state directory, at most 100,
// sorted by path. It follows no symbolic link.
func Aside(dir string) ([]string, error) {
	var found []string
	looked := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if looked++; looked > maxLooked {
			return ErrManyFiles
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed in the meantime, or there is no state directory
			return nil
		case err != nil:
			return err
		case e.IsDir():
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			if slices.Contains(written, e.Name()) && rel != "." || strings.Count(rel, string(filepath.Separator)) >= asideDepth {
				return fs.SkipDir
			}
		case e.Type().IsRegular() && strings.Contains(e.Name(), Infix):
			if found = append(found, path); len(found) == maxAside {
				return fs.SkipAll
			}
		}
		return nil
	})
	return found, err
}
