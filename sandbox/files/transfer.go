package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/corral-exec/corral"
)

// Upload implements FS.
func (d Directory) Upload(ctx context.Context, name string, r io.Reader, l Limits) (got Totals, err error) {
	a := newArchive(reader{ctx, r}, l)
	err = d.do(ctx, "unpack an archive in", name, true, func(t *tree, _, rel string) error {
		at, err := t.walkDir(rel)
		if err != nil {
			return err
		}
		at.Close()
		u := unpacking{tree: t, archive: a, to: rel}
		if err := u.all(); err != nil {
			return err
		}
		return drain(r)
	})
	return a.got, err
}

// maxDrained is how much may come after the end of an archive: tar fills up the
// last record.
const maxDrained = 1 << 20

func drain(r io.Reader) error {
	_, err := io.CopyN(io.Discard, r, maxDrained)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// unpacking is one archive on its way into a directory.
type unpacking struct {
	*tree
	archive *archive
	to      string
	// Modes of directories that their owner could not fill if they had them.
	later []entry

	checked string // the directory that straight saw last
}

func (u *unpacking) all() error {
	for {
		e, err := u.archive.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.one(e)
		}
		if err != nil {
			return u.local.fail("unpack", path.Join(u.as, u.to, e.name), err)
		}
	}
	for i := len(u.later) - 1; i >= 0; i-- {
		e, p := u.later[i], place{}
		err := u.straight(e.name)
		if err == nil {
			p, err = u.locate(path.Join(u.to, e.name), false)
		}
		if err == nil {
			err = errors.Join(p.chmod(p.base, fs.FileMode(e.mode)), p.Close())
		}
		if err != nil {
			return u.local.fail("give its mode to", path.Join(u.as, u.to, e.name), err)
		}
	}
	return nil
}

// straight fails if there is a link on the way to a directory of the archive. In a sandbox
// links lead where its commands can go anyway. On this machine one that came before could
// lead to files beside those that are unpacked.
func (u *unpacking) straight(name string) error {
	if u.local == nil || name == u.checked {
		return nil
	}
	at := path.Join(u.to, name)
	switch real, err := u.resolve(at, true); {
	case err != nil:
		return err
	case real != at:
		return corral.Errorf(corral.ErrInvalid, "remove the link, or copy elsewhere", "there is a link on the way, and nothing is written through one")
	}
	u.checked = name
	return nil
}

func (u *unpacking) one(e entry) error {
	name := path.Join(u.to, e.name)
	if e.typ == TypeDir {
		if err := u.straight(e.name); err != nil {
			return err
		}
		return u.directory(e, name)
	}
	if err := u.straight(path.Dir(e.name)); err != nil {
		return err
	}
	if parent := path.Dir(name); e.name != path.Base(e.name) {
		if err := u.makeDirs(parent, 0o755); err != nil {
			return err
		}
	}
	p, err := u.locate(name, false)
	if err != nil {
		return err
	}
	defer p.Close()
	switch e.typ {
	case TypeFile:
		return put(p.dir, p.base, u.archive, file{mode: e.mode, mtime: e.mtime, attributes: e.attributes, lenient: true})
	case TypeLink:
		u.checked = ""
		if err := ignoreAbsent(p.remove(p.base, false)); err != nil {
			return err
		}
		return p.symlink(e.target, p.base)
	}
	if e.target == e.name {
		return nil
	}
	if err := u.straight(path.Dir(e.target)); err != nil {
		return err
	}
	from, err := u.locate(path.Join(u.to, e.target), false)
	if err != nil {
		return err
	}
	defer from.Close()
	// It was a file of the archive, and can have become something else.
	if s, err := from.lstat(from.base); err != nil || s.typ != TypeFile {
		return errors.Join(err, &kindError{is: s.typ, want: TypeFile})
	}
	if err := ignoreAbsent(p.remove(p.base, false)); err != nil {
		return err
	}
	return p.link(from.dir, from.base, p.base)
}

func (u *unpacking) directory(e entry, name string) error {
	if e.name == "." {
		return nil // it is there, and stays as it is
	}
	if err := u.makeDirs(name, 0o755); err != nil {
		return err
	}
	if e.mode&0o700 != 0o700 {
		u.later = append(u.later, e)
		e.mode |= 0o700
	}
	p, err := u.locate(name, false)
	if err != nil {
		return err
	}
	defer p.Close()
	if s, err := p.lstat(p.base); err != nil || s.typ != TypeDir || s.mode == e.mode {
		return err // a link to a directory, whose mode stays
	}
	return p.chmod(p.base, fs.FileMode(e.mode))
}

// Download implements FS.
func (d Directory) Download(ctx context.Context, name string, w io.Writer, l Limits) (got Totals, err error) {
	out := newWriter(w, l)
	err = d.do(ctx, "copy", name, false, func(t *tree, _, rel string) error {
		p, err := t.locate(rel, false)
		if err != nil {
			return err
		}
		defer p.Close()
		k := packing{ctx: ctx, writer: out}
		if err := k.add(p.dir, p.base, p.base, 0); err != nil {
			return err
		}
		return out.finish()
	})
	return out.got, err
}

// packing is a tree on its way into an archive.
type packing struct {
	ctx    context.Context
	writer *writer
	names  int // that are in memory, of all directories on the way to where it is
}

// add adds the file base of the directory d, as name.
func (k *packing) add(d dir, base, name string, level int) error {
	if err := k.ctx.Err(); err != nil {
		return err
	}
	s, err := d.lstat(base)
	if err != nil {
		return err
	}
	e := entry{name: name, typ: s.typ, mode: s.mode, mtime: s.mtime}
	switch s.typ {
	case TypeFile:
		f, s, err := regular(d, base)
		if err != nil {
			return err
		}
		defer f.Close()
		e.size, e.mode, e.mtime, e.attributes = s.size, s.mode, s.mtime, d.attributes(base)
		k.writer.empty = func(string) ([]byte, error) { return all(reader{k.ctx, f}, name) }
		return k.writer.add(e, reader{k.ctx, f})
	case TypeLink:
		if e.target, err = d.readlink(base); err != nil {
			return err
		}
	case TypeDir:
		if level >= k.writer.limits.Depth {
			return corral.Errorf(corral.ErrInvalid, "copy a directory further down", "%s is deeper than %d directories", show(name), k.writer.limits.Depth)
		}
		if err := k.writer.add(e, nil); err != nil {
			return err
		}
		return k.members(d, base, name, level)
	}
	return k.writer.add(e, nil)
}

func (k *packing) members(d dir, base, name string, level int) error {
	sub, err := d.sub(base)
	if err != nil {
		return err
	}
	defer sub.Close()
	names, err := sorted(sub, k.writer.limits.Entries+maxSkipped-k.names)
	if err != nil {
		return err
	}
	k.names += len(names)
	defer func() { k.names -= len(names) }()
	for _, e := range names {
		err := k.add(sub, e, path.Join(name, e), level+1)
		// Files come and go while a tree is copied, and one kind takes the place of another.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !isKind(err) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EINVAL) {
			return err
		}
	}
	return nil
}

// maxSkipped is how many special files directories in one another can have beside others.
// Tests have it be less.
var maxSkipped = 100_000
