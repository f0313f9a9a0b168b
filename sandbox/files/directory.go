package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
)

// Directory is the FS of a workspace that this machine sees.
type Directory struct {
	Path string // of this machine; links in it were followed by the caller
	Root string // what the sandbox calls it, such as /workspace; clean
	// ReadOnly refuses changes, as the sandbox's mount does.
	ReadOnly bool
	// User is whose rights are used, and who owns what is made, if this program
	// is root. Nil: this program's.
	User *User
	// Offset is what IDs on this machine have more than in the sandbox.
	Offset int
	// Shown is who the sandbox sees where User is on this machine: the mount
	// shows it so. Nil, and if it says nil: User.
	Shown func() (*User, error)

	local    *local // nil: it is a sandbox's
	portable bool   // for tests: not by openat2
}

// User is a user and a group of this machine.
type User struct{ UID, GID int }

// do opens the workspace for one operation on name.
func (d Directory) do(ctx context.Context, what, name string, changes bool, f func(t *tree, name, rel string) error) error {
	name, err := Clean(d.Root, name)
	if err != nil {
		return err
	}
	rel, ok := below(d.Root, name)
	if !ok {
		return corral.Errorf(corral.ErrDenied, "use a path below "+d.Root, "cannot %s %s: it is not in the workspace", what, show(name))
	}
	if changes && d.ReadOnly {
		return readOnly(d.Root, what, name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var shown *User
	if d.Shown != nil {
		if shown, err = d.Shown(); err != nil {
			return d.local.fail(what, name, err)
		}
	}
	a, err := openAnchor(d.Path, d.portable)
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see whether it is still there", "cannot open the workspace: %w", err)
	}
	defer a.Close()
	err = d.User.as(func() error {
		return f(&tree{anchor: a, as: d.Root, offset: d.Offset, owner: d.User, shown: shown, local: d.local}, name, rel)
	})
	if errors.Is(err, errEscape) { // by a link that was put there meanwhile
		err = &outsideError{}
	}
	return d.local.fail(what, name, err)
}

// Stat implements FS.
func (d Directory) Stat(ctx context.Context, name string) (info Info, err error) {
	err = d.do(ctx, "look at", name, false, func(t *tree, name, rel string) error {
		p, err := t.locate(rel, false)
		if err != nil {
			return err
		}
		defer p.Close()
		info, err = t.info(name, p.dir, p.base)
		return err
	})
	return info, err
}

// List implements FS.
func (d Directory) List(ctx context.Context, name string, o ListOptions) (page Page, err error) {
	pager, err := newPager(o)
	if err != nil {
		return Page{}, err
	}
	err = d.do(ctx, "list", name, false, func(t *tree, name, rel string) error {
		at, err := t.walkDir(rel)
		if err != nil {
			return err
		}
		defer at.Close()
		if err := eachName(at, func(name string) error { pager.add(name); return ctx.Err() }); err != nil {
			return err
		}
		names, next := pager.page()
		page = Page{Entries: make([]Info, 0, len(names)), Next: next}
		for _, e := range names {
			info, err := t.info(path.Join(name, e), at, e)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it is gone
			}
			if err != nil {
				return err
			}
			page.Entries = append(page.Entries, info)
		}
		return nil
	})
	return page, err
}

// regular opens a regular file that is at a place.
func regular(d dir, base string) (*os.File, stat, error) {
	s, err := d.lstat(base)
	if err == nil && s.typ != TypeFile {
		err = &kindError{is: s.typ, want: TypeFile}
	}
	if err != nil {
		return nil, stat{}, err
	}
	f, err := d.open(base, os.O_RDONLY, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = &kindError{is: TypeLink, want: TypeFile}
	}
	if err != nil {
		return nil, stat{}, err
	}
	// It may be another file by now. It was opened so that nothing happens to
	// a device by that.
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &kindError{is: typeOf(info.Mode()), want: TypeFile}
	}
	if err != nil {
		return nil, stat{}, errors.Join(err, f.Close())
	}
	s.size, s.mode, s.mtime = info.Size(), Mode(info.Mode().Perm()), info.ModTime()
	return f, s, nil
}

// Read implements FS.
func (d Directory) Read(ctx context.Context, name string, o ReadOptions, to func(Info) (io.Writer, error)) error {
	if err := o.check(); err != nil {
		return err
	}
	var f *os.File
	var info Info
	if err := d.do(ctx, "read", name, false, func(t *tree, name, rel string) error {
		p, err := t.locate(rel, true)
		if err != nil {
			return err
		}
		defer p.Close()
		var s stat
		if f, s, err = regular(p.dir, p.base); err != nil {
			return err
		}
		info = t.describe(name, s)
		return nil
	}); err != nil {
		return err
	}
	defer f.Close()
	w, err := to(info)
	if err == nil {
		n, w := o.part(info.Size, w)
		err = copyTo(w, reader{ctx, io.NewSectionReader(f, o.Offset, n)})
	}
	return d.local.fail("read", info.Path, err)
}

func (o ReadOptions) check() error {
	if o.Offset < 0 || o.Limit < 0 {
		return corral.Errorf(corral.ErrInvalid, "use numbers that are not negative", "a part of a file from %d, of %d bytes, makes no sense", o.Offset, o.Limit)
	}
	return nil
}

// part is how much is asked for of a file of that size, and w, for no more than that.
// A size of 0 says nothing: files in /proc have it, whatever is in them.
func (o ReadOptions) part(size int64, w io.Writer) (int64, io.Writer) {
	n := max(0, size-o.Offset)
	switch {
	case size == 0 && o.Limit == 0: // one byte more, to be refused and not cut off
		return DefaultLimits.Bytes + 1, &atMost{w: w, most: DefaultLimits.Bytes, left: DefaultLimits.Bytes}
	case size == 0:
		n = o.Limit
	case o.Limit > 0:
		n = min(n, o.Limit)
	}
	return n, &atMost{w: w, most: n, left: n}
}

// atMost refuses more than that many bytes.
type atMost struct {
	w          io.Writer
	most, left int64
}

func (a *atMost) Write(p []byte) (int, error) {
	if int64(len(p)) > a.left {
		return 0, fmt.Errorf("more than %d bytes came", a.most)
	}
	a.left -= int64(len(p))
	return a.w.Write(p)
}

// A reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// buffers are what content is copied by. With the 32 KiB of io.Copy, 64 MiB that a client
// sends take 1.5 times as long.
var buffers = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// copyTo copies by a buffer, also where io.Copy would have one of the two do it by its own.
func copyTo(w io.Writer, r io.Reader) error {
	b := buffers.Get().(*[1 << 20]byte)
	defer buffers.Put(b)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, b[:])
	return err
}

// Write implements FS.
func (d Directory) Write(ctx context.Context, name string, r io.Reader, o WriteOptions) (info Info, err error) {
	if err := CheckAttributes(o.Attributes); err != nil {
		return Info{}, err
	}
	err = serve(r, func(r io.Reader) error { return d.write(ctx, name, r, o, &info) })
	return info, err
}

func (d Directory) write(ctx context.Context, name string, r io.Reader, o WriteOptions, info *Info) error {
	return d.do(ctx, "write", name, true, func(t *tree, name, rel string) error {
		if parent := path.Dir(rel); o.Parents && parent != "." {
			if err := t.makeDirs(parent, 0o755); err != nil {
				return err
			}
		}
		p, err := t.locate(rel, true)
		if err != nil {
			return err
		}
		defer p.Close()
		mode := o.Mode
		switch s, err := p.lstat(p.base); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case s.typ != TypeFile:
			return &kindError{is: s.typ, want: TypeFile}
		case o.New:
			return fs.ErrExist
		case mode == 0:
			mode = s.mode
		}
		mode = cmp.Or(mode, 0o644)
		if err := put(p.dir, p.base, reader{ctx, o.bounded(r)}, file{mode: mode, new: o.New, sync: !o.Volatile, volatile: o.Volatile, attributes: o.Attributes}); err != nil {
			return err
		}
		*info, err = t.info(name, p.dir, p.base)
		return err
	})
}

// bounded is r; more than the limit is an error.
func (o WriteOptions) bounded(r io.Reader) io.Reader {
	limit := o.Limit
	if limit <= 0 {
		limit = DefaultLimits.Bytes
	}
	return Bounded(r, limit)
}

// Bounded is r; more than limit bytes are an error.
func Bounded(r io.Reader, limit int64) io.Reader {
	return &boundedReader{r: r, limit: limit, left: limit}
}

type boundedReader struct {
	r           io.Reader
	limit, left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, corral.Errorf(corral.ErrInvalid, "", "the file would have more than %d bytes", b.limit)
	}
	return n, err
}

// file is how put makes one.
type file struct {
	mode  Mode
	mtime time.Time // zero: now
	new   bool      // nothing is replaced
	sync  bool

	// volatile: what is replaced may be lost in a power cut before this is on the disk.
	volatile bool

	attributes map[string]string
	lenient    bool // where files have no attributes, it gets none
}

// put makes a file of what r yields, all of it or none. What has the name is
// replaced, unless it is a directory.
func put(d dir, base string, r io.Reader, o file) (err error) {
	temp := ".corral-write-" + rand.Text()
	f, err := d.open(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	there := true
	defer func() {
		if cerr := f.Close(); err == nil && !errors.Is(cerr, os.ErrClosed) {
			err = cerr
		}
		if err != nil && there {
			err = errors.Join(err, ignoreAbsent(d.remove(temp, false)))
		}
	}()
	if err = copyTo(f, r); err != nil {
		return err
	}
	if err = setAttributes(f, o.attributes); err != nil && !(o.lenient && errors.Is(err, errors.ErrUnsupported)) {
		return err
	}
	if err = d.settle(f, fs.FileMode(o.mode), o.mtime); err != nil {
		return err
	}
	if o.sync {
		if err = f.Sync(); err != nil {
			return err
		}
	}
	if err = f.Close(); err != nil { // some file systems tell only now
		return err
	}
	if o.new {
		if err = d.link(d, temp, base); err != nil {
			return err
		}
		return d.remove(temp, false)
	}
	if o.volatile && exchange(d, temp, base) {
		return nil
	}
	if err = d.rename(temp, d, base); err != nil {
		return fmt.Errorf("cannot put it in place: %w", err)
	}
	there = false
	return nil
}

// exchange puts a file in the place of another, and removes that. ext4 begins to write a
// file to the disk that is renamed over another, which takes longer than to receive it. It
// reports whether it could; if not, temp is as before.
func exchange(d dir, temp, base string) bool {
	if d.exchange(temp, base) != nil {
		return false
	}
	if d.remove(temp, false) == nil {
		return true
	}
	_ = d.exchange(temp, base) // it had become a directory; it may be something else again
	return false
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Mkdir implements FS.
func (d Directory) Mkdir(ctx context.Context, name string, o MkdirOptions) error {
	mode := cmp.Or(fs.FileMode(o.Mode), 0o755)
	return d.do(ctx, "make the directory", name, true, func(t *tree, _, rel string) error {
		if parent := path.Dir(rel); o.Parents && parent != "." {
			if err := t.makeDirs(parent, 0o755); err != nil {
				return err
			}
		}
		return t.makeDir(rel, mode, o.Parents)
	})
}
