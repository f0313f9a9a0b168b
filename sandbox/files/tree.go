package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An anchor is an open handle of the workspace. Names are relative to it.
type anchor interface {
	// walk opens a directory, through symbolic links that stay inside. The
	// error is errEscape if one does not, and for all absolute ones.
	walk(name string) (dir, error)
	Close() error
}

var errEscape = errors.New("a path that leads outside")

// A dir is an open directory inside of an anchor. Its methods take the name of
// something in it, without a slash, and follow no link.
type dir interface {
	lstat(name string) (stat, error) // "." is the directory itself
	readlink(name string) (string, error)
	attributes(name string) map[string]string // extended ones, of a file
	// open opens a file without waiting: a FIFO as well.
	open(name string, flag int, perm fs.FileMode) (*os.File, error)
	sub(name string) (dir, error)
	// names are the next n names in it; io.EOF after the last.
	names(n int) ([]string, error)

	mkdir(name string, perm fs.FileMode) error
	symlink(target, name string) error
	// link gives the file name of the directory from another name here.
	link(from dir, name, as string) error
	rename(name string, to dir, as string) error
	exchange(name, with string) error
	remove(name string, directory bool) error
	chmod(name string, perm fs.FileMode) error // of a directory
	// settle gives a file that was opened for writing its mode and its time;
	// of a zero time none.
	settle(f *os.File, perm fs.FileMode, mtime time.Time) error

	Close() error
}

// stat is what is known of a file, with the IDs that it has on the disk.
type stat struct {
	typ      Type
	mode     Mode
	special  uint32 // setuid, setgid and sticky, as chmod counts them
	size     int64
	uid, gid int
	mtime    time.Time
}

// A tree is the workspace for one operation.
type tree struct {
	anchor
	as     string // what the sandbox calls it
	offset int    // of IDs
	owner  *User  // who is shown as
	shown  *User  // if not nil
	local  *local // for errors
}

// A place is where a file is, or would be.
type place struct {
	dir
	base string
	name string // from the anchor on, without links; as far as is known
}

// Bounds of following links.
const (
	maxLinks = 40 // as Linux
	maxTries = 16 // when directories change meanwhile
)

// locate finds where name is. With follow it is no link then, unless it has
// become one meanwhile.
func (t *tree) locate(name string, follow bool) (place, error) {
	for range maxTries {
		p, err := t.at(name)
		if err == nil && follow {
			var s stat
			switch s, err = p.lstat(p.base); {
			case errors.Is(err, fs.ErrNotExist):
				return p, nil
			case err == nil && s.typ != TypeLink:
				return p, nil
			case err == nil:
				err = errEscape // for resolve to say
			}
			p.Close()
		}
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, errEscape) {
			return place{}, err
		}
		if name, err = t.resolve(name, follow); err != nil {
			return place{}, err
		}
	}
	return place{}, syscall.EAGAIN
}

func (t *tree) at(name string) (place, error) {
	parent, base := path.Split(name)
	if parent = strings.TrimSuffix(parent, "/"); parent == "" {
		parent = "."
	}
	d, err := t.walk(parent)
	if err != nil {
		return place{}, err
	}
	return place{dir: d, base: base, name: name}, nil
}

// walkDir opens a directory, through links.
func (t *tree) walkDir(name string) (dir, error) {
	for range maxTries {
		d, err := t.walk(name)
		if errors.Is(err, syscall.ENOTDIR) {
			return nil, t.noDir(name)
		}
		if !errors.Is(err, errEscape) {
			return d, err
		}
		if name, err = t.resolve(name, true); err != nil {
			return nil, err
		}
	}
	return nil, syscall.EAGAIN
}

// noDir says why name is no directory: it is something else, or below that.
func (t *tree) noDir(name string) error {
	p, err := t.locate(name, true)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.lstat(p.base)
	if err != nil {
		return err
	}
	return &kindError{is: s.typ, want: TypeDir}
}

// resolve is name without links, those of the last element only with follow.
// Absolute links mean what they mean in the sandbox. What resolve finds can be
// something else a moment later: it is opened by walk all the same.
func (t *tree) resolve(name string, follow bool) (string, error) {
	var done []string // without links
	todo := strings.Split(name, "/")
	for links := 0; len(todo) > 0; {
		e := todo[0]
		todo = todo[1:]
		switch e {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", &outsideError{}
			}
			done = done[:len(done)-1]
			continue
		}
		here := strings.Join(append(done, e), "/")
		target, err := t.linkAt(here)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			done = append(done, e)
			continue
		case err != nil:
			return "", err
		case target == "" || len(todo) == 0 && !follow:
			done = append(done, e)
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		if path.IsAbs(target) {
			rel, ok := below(t.as, path.Clean(target))
			if !ok {
				return "", &outsideError{link: t.as + "/" + here, target: target}
			}
			// Not as clean: ".." after a link means its parent.
			if literal, ok := strings.CutPrefix(target, t.as+"/"); ok {
				rel = literal
			}
			done, target = nil, rel
		} else if depth(target) > len(done) {
			return "", &outsideError{link: t.as + "/" + here, target: target}
		}
		todo = append(strings.Split(target, "/"), todo...)
		if len(todo) > maxPath {
			return "", syscall.ENAMETOOLONG
		}
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}

// depth is how far up a relative path begins.
func depth(target string) int {
	n := 0
	for e := range strings.SplitSeq(target, "/") {
		if e != ".." {
			break
		}
		n++
	}
	return n
}

// linkAt is what a link leads to, or empty if name is no link. The directories in
// name are no links.
func (t *tree) linkAt(name string) (string, error) {
	p, err := t.at(name)
	if errors.Is(err, errEscape) { // one has become a link
		return "", syscall.EAGAIN
	}
	if err != nil {
		return "", err
	}
	defer p.Close()
	s, err := p.lstat(p.base)
	if err != nil || s.typ != TypeLink {
		return "", err
	}
	return p.readlink(p.base)
}

// info describes what is at a place.
func (t *tree) info(name string, d dir, base string) (Info, error) {
	s, err := d.lstat(base)
	if err != nil {
		return Info{}, err
	}
	i := t.describe(name, s)
	switch s.typ {
	case TypeLink:
		i.Target, err = d.readlink(base)
	case TypeFile:
		i.Attributes = d.attributes(base)
	}
	return i, err
}

// describe is what a stat says, as the sandbox sees it.
func (t *tree) describe(name string, s stat) Info {
	i := newInfo(name)
	i.Type, i.Mode, i.Size, i.ModTime = s.typ, s.mode, s.size, s.mtime.Truncate(time.Second).UTC()
	i.setSpecial(s.special)
	i.UID, i.GID = t.seen(s.uid), t.seen(s.gid)
	if t.shown != nil && t.owner != nil {
		if s.uid == t.owner.UID {
			i.UID = t.shown.UID
		}
		if s.gid == t.owner.GID {
			i.GID = t.shown.GID
		}
	}
	return i
}

// nobody is what a user namespace shows for IDs that it has none for.
const nobody = 65534

func (t *tree) seen(id int) int {
	switch {
	case t.offset == 0:
		return id
	case id < t.offset:
		return nobody
	}
	return id - t.offset
}

// makeDirs makes directories that name lacks.
func (t *tree) makeDirs(name string, perm fs.FileMode) error {
	for end := 0; end < len(name); {
		next := strings.IndexByte(name[end:], '/')
		if next < 0 {
			end = len(name)
		} else {
			end += next
		}
		if name[:end] != "." {
			if err := t.makeDir(name[:end], perm, true); err != nil {
				return err
			}
		}
		end++
	}
	return nil
}

// makeDir makes a directory; with exists, one may be there, or a link to one.
func (t *tree) makeDir(name string, perm fs.FileMode, exists bool) error {
	p, err := t.locate(name, exists)
	if err != nil {
		return err
	}
	defer p.Close()
	err = fs.ErrExist // of the workspace itself
	if p.base != "." {
		if err = p.mkdir(p.base, perm&0o777|0o700); err == nil {
			return p.chmod(p.base, perm&0o777) // whatever our umask is
		}
	}
	if !exists || !errors.Is(err, fs.ErrExist) {
		return err
	}
	s, err := p.lstat(p.base)
	if err == nil && s.typ != TypeDir {
		err = &kindError{is: s.typ, want: TypeDir}
	}
	return err
}

// sorted are all names in a directory; more than limit are an error.
func sorted(d dir, limit int) ([]string, error) {
	var all []string
	err := eachName(d, func(name string) error {
		if len(all) >= limit {
			return errTooMany
		}
		all = append(all, name)
		return nil
	})
	slices.Sort(all)
	return all, err
}

var errTooMany = errors.New("too many files")

func eachName(d dir, do func(string) error) error {
	for {
		names, err := d.names(1024)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
