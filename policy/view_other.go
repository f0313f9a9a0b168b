//go:build !unix

package policy

import (
	"io/fs"
	"os"
	"path/filepath"
)

const nonblock = 0

func executable(path string) error {
	_, err := os.Stat(path) // such systems have no permission for it
	return err
}

func realPath(path string) (string, error) { return filepath.EvalSymlinks(path) }

func typeOf(path string) (fs.FileMode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode().Type(), nil
}
