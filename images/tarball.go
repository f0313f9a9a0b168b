package images

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// An entry is a file of a root file system and how to read it.
type entry struct {
	tar.Header
	open func() (io.ReadCloser, error) // nil for all but regular files
}

const (
	block   = 512       // what tar rounds up to
	trailer = 2 * block // what ends an archive
)

// writeTar writes entries as an archive that depends on nothing but them:
// the same entries are the same bytes. Modification times after epoch become
// epoch, as reproducible-builds.org/specs/source-date-epoch has it. Times
// before are those of the packages; Python compares them with the ones in its
// compiled files. Owners are numbers only, and extended attributes are left
// out with the set-user-ID bits: a sandbox may gain no privilege by either.
func writeTar(ctx context.Context, w io.Writer, entries []entry, epoch time.Time) error {
	tw := tar.NewWriter(w)
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := writeEntry(tw, e, epoch); err != nil {
			return fmt.Errorf("archive /%s: %w", e.Name, err)
		}
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, e entry, epoch time.Time) error {
	h := tar.Header{
		Typeflag: e.Typeflag, Name: e.Name, Linkname: e.Linkname, Size: e.Size,
		Uid: e.Uid, Gid: e.Gid, Mode: e.Mode & 0o1777,
		ModTime: e.ModTime.Truncate(time.Second),
	}
	if h.ModTime.After(epoch) {
		h.ModTime = epoch
	}
	if h.Typeflag == tar.TypeDir {
		h.Name = strings.TrimSuffix(h.Name, "/") + "/"
	}
	if err := tw.WriteHeader(&h); err != nil || e.open == nil {
		return err
	}
	f, err := e.open()
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	n, err := io.Copy(tw, f)
	if err == nil && n != e.Size {
		err = fmt.Errorf("it has %d bytes, and had %d", n, e.Size)
	}
	return err
}

func dirEntry(name string, mode fs.FileMode, mtime time.Time) entry {
	h := tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: int64(mode.Perm()), ModTime: mtime}
	if mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	return entry{Header: h}
}

func linkEntry(name, target string, mtime time.Time) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: mtime}}
}

func fileEntry(name string, mode fs.FileMode, content []byte, mtime time.Time) entry {
	return entry{
		Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode.Perm()), Size: int64(len(content)), ModTime: mtime},
		open:   func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}
}
