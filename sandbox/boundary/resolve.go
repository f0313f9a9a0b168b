package boundary

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may lead through, as in Linux.
const maxLinks = 40

// resolve follows the symbolic links of an absolute path, of as much of it as
// exists: a link to what does not exist leads there too. The result is clean.
func resolve(p string) (string, error) {
	todo := strings.Split(p, "/")
	at, links := "/", 0
	for len(todo) > 0 {
		next := filepath.Join(at, todo[0]) // at has no links, so that .. is the directory above it
		todo = todo[1:]
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return filepath.Join(append([]string{next}, todo...)...), nil
		case err != nil:
			return "", err
		case info.Mode().Type() != fs.ModeSymlink:
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "follow", Path: p, Err: syscall.ELOOP}
		}
		link, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(link, "/") {
			at = "/"
		}
		todo = append(strings.Split(link, "/"), todo...)
	}
	return at, nil
}
