package images

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A debianFS is a tree on disk, in a directory that is its own.
type debianFS struct {
	temp     string
	root     *os.Root
	files    tree
	packages []Package
	sbom     []byte
}

// open reads what was installed since begun.
func (d *debianFS) open(b building, begun time.Time) (err error) {
	if d.root, err = os.OpenRoot(filepath.Join(d.temp, "root")); err != nil {
		return err
	}
	if d.packages, err = installedPackages(d.root.FS()); err != nil {
		return err
	}
	prune := b.recipe.content.(debianContent).Prune
	// All users may write there, also those of this machine while the image is made.
	prune.Drop = append(slices.Clone(prune.Drop), "workspace/*")
	if d.files.entries, err = scanTree(d.root, prune); err != nil {
		return err
	}
	if d.files.epoch = b.epoch; b.epoch.IsZero() {
		if d.files.epoch, err = newestBefore(d.files.entries, begun); err != nil {
			return err
		}
	}
	d.sbom, err = newSBOM(b.recipe, d.packages, d.files.epoch)
	return err
}

// newestBefore is how old the newest file is that was not made by the build: the
// packages' own are as old as they say, so that the same packages give the same.
func newestBefore(entries []entry, begun time.Time) (time.Time, error) {
	var newest time.Time
	for _, e := range entries {
		if e.ModTime.Before(begun) && e.ModTime.After(newest) {
			newest = e.ModTime
		}
	}
	if newest.IsZero() {
		return newest, fmt.Errorf("no file is older than %s: is the clock right?", begun.Format(time.RFC3339))
	}
	return newest.UTC().Truncate(time.Second), nil
}

// Layers are the packages, and what they are.
func (d *debianFS) Layers() []Layer {
	var entries []entry
	for dir := path.Dir(sbomPath[1:]); dir != "."; dir = path.Dir(dir) {
		entries = append(entries, dirEntry(dir, 0o755, d.files.epoch))
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	entries = append(entries, fileEntry(sbomPath[1:], 0o644, d.sbom, d.files.epoch))
	return []Layer{d.files, tree{entries, d.files.epoch}}
}

func (d *debianFS) Created() time.Time { return d.files.epoch }

func (d *debianFS) Close() error {
	var err error
	if d.root != nil {
		err = d.root.Close()
	}
	return errors.Join(err, os.RemoveAll(d.temp))
}
