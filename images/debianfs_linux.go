package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A debianFS is a tree on disk, in a directory that is its own.
type debianFS struct {
	temp    string
	root    *os.Root
	entries []entry
	epoch   time.Time
}

func (d *debianFS) open() (err error) {
	if d.root, err = os.OpenRoot(filepath.Join(d.temp, "root")); err != nil {
		return err
	}
	if d.epoch, err = releaseDate(d.root); err != nil {
		return err
	}
	d.entries, err = scanTree(d.root, debianContent.Prune)
	return err
}

func (d *debianFS) Size() int64 { return tarSize(d.entries) }

func (d *debianFS) WriteTar(ctx context.Context, w io.Writer) error {
	return writeTar(ctx, w, d.entries, d.epoch)
}

func (d *debianFS) Close() error {
	var err error
	if d.root != nil {
		err = d.root.Close()
	}
	return errors.Join(err, os.RemoveAll(d.temp))
}

// releaseDate is when the newest of the archives was published: no package is
// younger, and every build from the same archives sees the same.
func releaseDate(root *os.Root) (time.Time, error) {
	const lists = "var/lib/apt/lists"
	var newest time.Time
	dir, err := root.Open(lists)
	if err != nil {
		return newest, err
	}
	defer dir.Close() // it was only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return newest, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "Release") { // InRelease too
			continue
		}
		text, err := root.ReadFile(lists + "/" + name)
		if err != nil {
			return newest, err
		}
		for line := range strings.Lines(string(text)) {
			value, ok := strings.CutPrefix(line, "Date:")
			if !ok {
				continue
			}
			date, err := mail.ParseDate(strings.Replace(strings.TrimSpace(value), "UTC", "+0000", 1))
			if err != nil {
				return newest, fmt.Errorf("%s: %w", name, err)
			}
			if date.After(newest) {
				newest = date
			}
			break
		}
	}
	if newest.IsZero() {
		return newest, errors.New("apt has no date of a release")
	}
	return newest.UTC(), nil
}
