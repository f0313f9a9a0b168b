package files

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/corral-exec/corral"
)

// Copy copies a file, a link or a directory with its content from one FS to another,
// by the rules of cp -R and of docker cp: into dst if that is a directory, and else
// as dst, whose parent must exist. If src ends with "/." the content of src is
// copied, and not src itself. If src itself is a device, a FIFO or a socket, that is
// an error; those in it are left out and counted.
func Copy(ctx context.Context, from FS, src string, to FS, dst string, l Limits) (Totals, error) {
	dir, base, err := target(ctx, from, src, to, dst)
	if err != nil {
		return Totals{}, err
	}
	pr, pw := io.Pipe()
	read := make(chan error, 1)
	var sent Totals
	go func() {
		r := renaming(pw, base, l)
		var err error
		sent, err = from.Download(ctx, itself(src), r, l)
		err = errors.Join(err, r.Close())
		pw.CloseWithError(err)
		read <- err
	}()
	got, err := to.Upload(ctx, dir, pr, l)
	pr.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	// What ended the archive is why it could not be unpacked.
	if rerr := <-read; rerr != nil && !errors.Is(rerr, io.ErrClosedPipe) {
		err = rerr
	}
	got.Skipped += sent.Skipped // which the archive does not tell
	return got, err
}

// itself is src, without a "/." at its end.
func itself(src string) string {
	if src == "/." {
		return "/"
	}
	return strings.TrimSuffix(src, "/.")
}

// target is the directory that an archive of src is unpacked in, and what its
// top is called there: "." if it is that directory itself.
func target(ctx context.Context, from FS, src string, to FS, dst string) (dir, base string, err error) {
	contents := strings.HasSuffix(src, "/.")
	what, err := from.Stat(ctx, itself(src))
	if err != nil {
		return "", "", err
	}
	if contents && what.Type != TypeDir {
		return "", "", corral.Errorf(corral.ErrInvalid, "leave out the /.", "%s is a %s, not a directory", localOf(from).show(src), what.Type)
	}
	switch what.Type {
	case TypeFile, TypeDir, TypeLink:
	default:
		return "", "", localOf(from).fail("copy", src, &kindError{is: what.Type, want: TypeFile})
	}
	there, err := isDir(ctx, to, dst)
	missing := errors.Is(err, corral.ErrNotFound)
	switch {
	case err != nil && !missing:
		return "", "", err
	case there && contents:
		return dst, ".", nil
	case there && path.Base(what.Path) == "/":
		return dst, ".", nil
	case there:
		return dst, path.Base(what.Path), nil
	case missing && what.Type == TypeDir:
		dst = path.Clean(dst)
		return path.Dir(dst), path.Base(dst), nil // so that it gets its mode once it is full
	case missing && strings.HasSuffix(dst, "/"):
		return "", "", err
	case what.Type == TypeDir:
		return "", "", corral.Errorf(corral.ErrConflict, "name a directory", "cannot copy the directory %s over the file %s", localOf(from).show(src), localOf(to).show(dst))
	}
	return path.Dir(dst), path.Base(dst), nil
}

// isDir reports whether name is a directory, or a link to one.
func isDir(ctx context.Context, f FS, name string) (bool, error) {
	i, err := f.Stat(ctx, name)
	if err != nil || i.Type != TypeLink {
		return i.Type == TypeDir, err
	}
	_, err = f.List(ctx, name, ListOptions{Limit: 1})
	return err == nil, nil
}

// A renamer is written an archive, and writes the same with another name for its top.
type renamer struct {
	*io.PipeWriter
	done chan error
}

func renaming(w io.Writer, base string, l Limits) renamer {
	pr, pw := io.Pipe()
	r := renamer{pw, make(chan error, 1)}
	go func() {
		err := rename(w, pr, base, l)
		pr.CloseWithError(err)
		r.done <- err
	}()
	return r
}

func rename(w io.Writer, r io.Reader, base string, l Limits) error {
	in, out := newArchive(r, l), newWriter(w, l)
	in.leaveOut = true
	top := ""
	as := func(name string) string {
		if top == "." {
			return path.Join(base, name)
		}
		return path.Join(base, strings.TrimPrefix(strings.TrimPrefix(name, top), "/"))
	}
	for {
		e, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		top = cmp.Or(top, e.name)
		if e.name = as(e.name); e.typ == typeHard {
			e.target = as(e.target)
		}
		if err := out.add(e, in); err != nil {
			return err
		}
	}
	if err := out.finish(); err != nil {
		return err
	}
	return drain(r)
}

// Close waits until all is written. An archive that was cut is an error.
func (r renamer) Close() error {
	err := r.PipeWriter.Close()
	if rerr := <-r.done; rerr != nil {
		err = rerr
	}
	return err
}
