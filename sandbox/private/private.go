// Package private has the directories that Corral makes for sandboxes: private workspaces
// and volumes. One with a size is an image beside the directory (DIR.img) that is mounted
// there. Whether it is that, and of what size, the files tell: nothing else does. The mount
// is this machine's, and not noted anywhere: a program that needs the directory mounts it
// if it is not mounted, as after the machine was started.
package private

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/diskimage"
	"github.com/corral-exec/corral/sandbox/files"
)

const suffix = ".img"

// Image is the file of a directory that has a size.
func Image(dir string) string { return dir + suffix }

// Size is that of a directory's image; 0 if it has none.
func Size(dir string) (int64, error) {
	info, err := os.Stat(Image(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Make makes a directory, unless it is there. Its size is that of its image; one that is
// empty and has none may get one.
func Make(dir string) (size int64, empty bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return 0, false, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, false, err
	}
	if size, err = Size(dir); err == nil {
		empty, err = isEmpty(dir)
	}
	return size, empty, err
}

func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// Remove removes a directory, whatever a command has made of it: the mount, the image and
// what is below. What is not there is no error.
func Remove(dir string) error {
	if err := diskimage.Unmount(dir); err != nil {
		return err
	}
	for _, file := range []string{Image(dir), diskimage.Partial(Image(dir))} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return RemoveTree(dir)
}

// RemoveTree removes what is below a directory, and the directory.
func RemoveTree(dir string) error {
	if err := files.RemoveTree(context.Background(), dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Names are the directories below one that have at least one file of theirs.
func Names(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range list {
		name, image := strings.CutSuffix(strings.TrimSuffix(e.Name(), diskimage.Partial("")), suffix)
		if (image || e.IsDir()) && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
