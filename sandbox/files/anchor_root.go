package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// openRoot is an anchor by os.Root, which every system has.
func openRoot(name string) (anchor, error) {
	r, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return rootAnchor{r}, nil
}

type rootAnchor struct{ r *os.Root }

func (a rootAnchor) Close() error { return a.r.Close() }

func (a rootAnchor) walk(name string) (dir, error) {
	info, err := a.r.Stat(name)
	if err != nil {
		return nil, escaping(err)
	}
	if !info.IsDir() {
		return nil, syscall.ENOTDIR
	}
	return &rootDir{r: a.r, at: name}, nil
}

// escaping tells by its text the error that os.Root has no name for.
func escaping(err error) error {
	if err != nil && strings.Contains(err.Error(), "path escapes") {
		return errors.Join(errEscape, err)
	}
	return err
}

// A rootDir is the name of a directory: os.Root finds it anew each time.
type rootDir struct {
	r    *os.Root
	at   string
	list *os.File
}

func (d *rootDir) path(name string) string { return path.Join(d.at, name) }

func (d *rootDir) Close() error {
	if d.list != nil {
		return d.list.Close()
	}
	return nil
}

func (d *rootDir) lstat(name string) (stat, error) {
	info, err := d.r.Lstat(d.path(name))
	if err != nil {
		return stat{}, escaping(err)
	}
	s := stat{typ: typeOf(info.Mode()), mode: Mode(info.Mode().Perm()), size: info.Size(), mtime: info.ModTime()}
	for bit, special := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if info.Mode()&bit != 0 {
			s.special |= special
		}
	}
	s.uid, s.gid = ownerOf(info)
	return s, nil
}

func typeOf(m fs.FileMode) Type {
	switch t := m.Type(); {
	case t == 0:
		return TypeFile
	case t == fs.ModeDir:
		return TypeDir
	case t == fs.ModeSymlink:
		return TypeLink
	case t == fs.ModeNamedPipe:
		return TypeFIFO
	case t == fs.ModeSocket:
		return TypeSocket
	case t&fs.ModeDevice != 0:
		return TypeDevice
	}
	return typeUnknown
}

func (d *rootDir) readlink(name string) (string, error) { return d.r.Readlink(d.path(name)) }

func (d *rootDir) attributes(name string) map[string]string {
	at, err := d.r.Open(d.at)
	if err != nil {
		return nil
	}
	defer at.Close()
	return attributes(int(at.Fd()), name)
}

func (d *rootDir) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	if flag&os.O_EXCL != 0 {
		return d.r.OpenFile(d.path(name), flag, perm)
	}
	before, err := d.r.Lstat(d.path(name))
	if err != nil {
		return nil, escaping(err)
	}
	f, err := d.r.OpenFile(d.path(name), flag|openNonblock, perm)
	if err != nil {
		return nil, escaping(err)
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(before, info) {
		err = syscall.EAGAIN // another by now, or a link
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d *rootDir) sub(name string) (dir, error) {
	s, err := d.lstat(name)
	if err != nil {
		return nil, err
	}
	if s.typ != TypeDir {
		return nil, &kindError{is: s.typ, want: TypeDir}
	}
	return &rootDir{r: d.r, at: d.path(name)}, nil
}

func (d *rootDir) names(n int) ([]string, error) {
	if d.list == nil {
		f, err := d.r.Open(d.at)
		if err != nil {
			return nil, err
		}
		d.list = f
	}
	return d.list.Readdirnames(n)
}

func (d *rootDir) mkdir(name string, perm fs.FileMode) error {
	return d.r.Mkdir(d.path(name), perm)
}

func (d *rootDir) symlink(target, name string) error { return d.r.Symlink(target, d.path(name)) }

func (d *rootDir) link(from dir, name, as string) error {
	return d.r.Link(from.(*rootDir).path(name), d.path(as))
}

func (d *rootDir) rename(name string, to dir, as string) error {
	return d.r.Rename(d.path(name), to.(*rootDir).path(as))
}

func (d *rootDir) exchange(string, string) error { return errors.ErrUnsupported }

func (d *rootDir) remove(name string, directory bool) error {
	s, err := d.lstat(name)
	if err == nil && directory && s.typ != TypeDir {
		err = &kindError{is: s.typ, want: TypeDir}
	}
	if err != nil {
		return err
	}
	return d.r.Remove(d.path(name))
}

func (d *rootDir) chmod(name string, perm fs.FileMode) error {
	s, err := d.lstat(name)
	if err == nil && s.typ != TypeDir {
		err = &kindError{is: s.typ, want: TypeDir}
	}
	if err != nil {
		return err
	}
	return d.r.Chmod(d.path(name), perm)
}

func (d *rootDir) settle(f *os.File, perm fs.FileMode, mtime time.Time) error {
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if mtime.IsZero() {
		return nil
	}
	return d.r.Chtimes(d.path(path.Base(f.Name())), mtime, mtime)
}
