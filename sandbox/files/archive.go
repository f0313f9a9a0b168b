package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// An entry is one of an archive.
type entry struct {
	name   string // relative and clean; "." is where it is unpacked
	typ    Type   // a file, directory, link or hard link
	target string // of a link; of a hard link another name of the archive
	mode   Mode
	size   int64
	mtime  time.Time

	attributes map[string]string // of a file
}

func badArchive(hint, format string, args ...any) error {
	return corral.Errorf(corral.ErrInvalid, hint, "the archive cannot be used: "+format, args...)
}

// An archive reads a tar archive that is not trusted.
type archive struct {
	tr     *tar.Reader
	in     tail
	limits Limits
	got    Totals
	// special files are left out, instead of being an error.
	leaveOut bool
	comments int
	names    int // bytes of names and targets so far: who unpacks it remembers them
	// seen are the files so far, to which hard links can be.
	seen map[string]bool
}

func newArchive(r io.Reader, l Limits) *archive {
	a := &archive{limits: l.orDefault(), seen: map[string]bool{}}
	a.in.r = r
	a.tr = tar.NewReader(&a.in)
	return a
}

// A tail knows how what was read ends.
type tail struct {
	r     io.Reader
	zeros int // at the end of what was read, since it was reset
	ended bool
	bytes int64
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.bytes += int64(n)
	t.ended = t.ended || err != nil
	for i := n - 1; ; i-- {
		if i < 0 {
			t.zeros += n
			break
		}
		if p[i] != 0 {
			t.zeros = n - 1 - i
			break
		}
	}
	return n, err
}

// blockSize is that of a tar archive.
const blockSize = 512

// Read reads the content of an entry.
func (a *archive) Read(p []byte) (int, error) {
	n, err := a.tr.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) && a.in.ended {
		err = a.broken(err)
	}
	return n, err
}

// next is the next entry, whose content is read from a. io.EOF after the last.
func (a *archive) next() (entry, error) {
	for {
		// A tar reader takes an archive that was cut between two entries for a
		// whole one. What ends without a block of zeros is cut.
		if _, err := io.Copy(io.Discard, a.tr); err != nil {
			return entry{}, a.broken(err)
		}
		a.in.zeros = 0
		h, err := a.tr.Next()
		switch {
		case errors.Is(err, io.EOF) && a.in.zeros < blockSize:
			return entry{}, badArchive("send all of it", "it was cut after %d bytes", a.in.bytes)
		case errors.Is(err, io.EOF):
			return entry{}, io.EOF
		case err != nil:
			return entry{}, a.broken(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader { // a comment, such as of git archive
			if a.comments++; a.comments > a.limits.Entries {
				return entry{}, badArchive("", "it has more than %d comments", a.limits.Entries)
			}
			continue
		}
		e, err := a.check(h)
		if errors.Is(err, errSpecial) {
			if a.got.Skipped++; a.got.Skipped > a.limits.Entries {
				return entry{}, badArchive("", "it has more than %d special files", a.limits.Entries)
			}
			continue
		}
		if err != nil {
			return entry{}, err
		}
		if a.got.Entries >= a.limits.Entries {
			return entry{}, badArchive("copy less at a time", "it has more than %d entries", a.limits.Entries)
		}
		if a.names += len(e.name) + len(e.target); a.names > a.limits.names() {
			return entry{}, badArchive("copy less at a time", "the names of its entries have more than %d bytes together", a.limits.names())
		}
		a.got.Entries++
		a.got.Bytes += e.size
		return e, nil
	}
}

func (a *archive) broken(err error) error {
	if errors.Is(err, tar.ErrHeader) && a.in.bytes <= blockSize || errors.Is(err, io.ErrUnexpectedEOF) && a.in.bytes < blockSize {
		return badArchive("send a tar archive that is not compressed", "it does not begin like one, or is compressed")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && a.in.ended {
		return badArchive("send all of it", "it was cut after %d bytes: %w", a.in.bytes, err)
	}
	return badArchive("", "%w", err)
}

var errSpecial = errors.New("a special file")

func (a *archive) check(h *tar.Header) (entry, error) {
	name, err := a.name(h.Name)
	if err != nil {
		return entry{}, err
	}
	e := entry{name: name, mode: Mode(h.Mode) & permBits, mtime: h.ModTime} //nolint:gosec // bits
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		e.typ, e.size = TypeFile, h.Size
		e.attributes = recorded(h)
	case tar.TypeDir:
		e.typ = TypeDir
	case tar.TypeSymlink:
		e.typ, e.target = TypeLink, h.Linkname
		if e.target == "" || len(e.target) > maxPath || strings.IndexByte(e.target, 0) >= 0 {
			return entry{}, badArchive("", "the symbolic link %s leads to %.80q", show(name), e.target)
		}
	case tar.TypeLink:
		e.typ = typeHard
		if e.target, err = a.name(h.Linkname); err != nil {
			return entry{}, err
		}
		if !a.seen[e.target] {
			return entry{}, badArchive("leave it out, or copy the file", "%s is to be another name of %s, which is no file of the archive before it", show(name), show(e.target))
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if a.leaveOut {
			return entry{}, errSpecial
		}
		return entry{}, badArchive("leave it out", "%s is a device or a FIFO", show(name))
	default:
		return entry{}, badArchive("leave it out", "%s is of the type %q, which is not understood", show(name), h.Typeflag)
	}
	if name == "." && e.typ != TypeDir {
		return entry{}, badArchive("", "it has %s for the directory in which it is unpacked", e.typ)
	}
	if e.size < 0 || e.size > a.limits.Bytes-a.got.Bytes {
		return entry{}, badArchive("copy less at a time", "its files have more than %d bytes with %s", a.limits.Bytes, show(name))
	}
	if e.typ == TypeFile || e.typ == typeHard {
		a.seen[name] = true
	} else {
		delete(a.seen, name)
	}
	return e, nil
}

// name is that of an entry, which is below where it is unpacked.
func (a *archive) name(name string) (string, error) {
	shown := name
	if len(shown) > 200 {
		shown = shown[:200] + "…"
	}
	switch {
	case name == "":
		return "", badArchive("", "an entry has no name")
	case path.IsAbs(name):
		return "", badArchive("use relative names (tar -C DIRECTORY)", "%s is an absolute name", show(shown))
	case len(name) > maxPath || strings.IndexByte(name, 0) >= 0:
		return "", badArchive("", "%s is no name of a file", show(shown))
	}
	depth := 0
	for e := range strings.SplitSeq(name, "/") {
		switch {
		case e == "..":
			return "", badArchive("use names without ..", "%s leads out of where it is unpacked, or might", show(shown))
		case len(e) > maxElement:
			return "", badArchive("", "%s has an element of %d bytes: %d are allowed", show(shown), len(e), maxElement)
		case e != "" && e != ".":
			depth++
		}
	}
	if depth > a.limits.Depth {
		return "", badArchive("copy a directory further down", "%s is deeper than %d directories", show(shown), a.limits.Depth)
	}
	return path.Clean(name), nil
}

// A writer makes a tar archive.
type writer struct {
	tw     *tar.Writer
	limits Limits
	got    Totals

	// fillable has directories be made so that their owner can fill them: not
	// every tar sees to that by itself. Those are to get their modes later.
	fillable bool
	later    []entry

	// empty returns what is in a file that is said to be empty, as those in /proc
	// are. Nil: nothing is.
	empty func(name string) ([]byte, error)
}

func newWriter(w io.Writer, l Limits) *writer {
	return &writer{tw: tar.NewWriter(w), limits: l.orDefault()}
}

// add adds an entry. A file that has become shorter than the entry says is
// filled up with zeros: what was promised in the archive must be in it.
func (w *writer) add(e entry, content io.Reader) error {
	if w.got.Entries >= w.limits.Entries {
		return corral.Errorf(corral.ErrInvalid, "copy less at a time", "there are more than %d files", w.limits.Entries)
	}
	if e.typ == TypeFile && e.size == 0 && w.empty != nil {
		data, err := w.empty(e.name)
		if err != nil {
			return err
		}
		e.size, content = int64(len(data)), bytes.NewReader(data)
	}
	if e.size > w.limits.Bytes-w.got.Bytes {
		return corral.Errorf(corral.ErrInvalid, "copy less at a time", "the files have more than %d bytes, with %s", w.limits.Bytes, show(e.name))
	}
	h := &tar.Header{Name: e.name, Mode: int64(e.mode), ModTime: e.mtime.Truncate(time.Second), Linkname: e.target}
	switch e.typ {
	case TypeFile:
		h.Typeflag, h.Size = tar.TypeReg, e.size
		for name, value := range e.attributes {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords[attributeRecord+name] = value
		}
	case TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
		if w.fillable && e.mode&0o700 != 0o700 {
			w.later = append(w.later, e)
			h.Mode |= 0o700
		}
	case TypeLink:
		h.Typeflag = tar.TypeSymlink
	case typeHard:
		h.Typeflag = tar.TypeLink
	default:
		w.got.Skipped++
		return nil
	}
	if err := w.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("cannot put %s into the archive: %w", show(e.name), err)
	}
	w.got.Entries++
	w.got.Bytes += h.Size
	if h.Size == 0 {
		return nil
	}
	n, err := io.Copy(w.tw, io.LimitReader(content, h.Size))
	if err != nil {
		return err
	}
	_, err = io.CopyN(w.tw, zeros{}, h.Size-n)
	return err
}

// attributeRecord is what GNU tar and libarchive begin the name of a record with that is
// an extended attribute.
const attributeRecord = "SCHILY.xattr." + attributeSpace

// recorded are the attributes of an entry; nil if CheckAttributes refuses them.
func recorded(h *tar.Header) (all map[string]string) {
	for record, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(record, attributeRecord); ok {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = value
		}
	}
	return usable(all)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// normalise copies an archive entry by entry, so that what comes out is as if
// we had made it. It does not end what it writes.
func normalise(w *writer, a *archive) (Totals, error) {
	for {
		e, err := a.next()
		if errors.Is(err, io.EOF) {
			w.got.Skipped += a.got.Skipped
			return w.got, nil
		}
		if err == nil {
			err = w.add(e, a)
		}
		if err != nil {
			return w.got, err
		}
	}
}

// Normalise copies a tar archive that cannot be trusted, such as one that came
// over a network: within limits, with names below its top alone, without
// owners, devices, FIFOs and sockets, and not if it was cut.
func Normalise(w io.Writer, r io.Reader, l Limits) (Totals, error) {
	return recreate(newWriter(w, l), r, l)
}

func recreate(out *writer, r io.Reader, l Limits) (Totals, error) {
	in := newArchive(r, l)
	in.leaveOut = true
	got, err := normalise(out, in)
	if err == nil {
		err = out.finish()
	}
	if err == nil {
		err = drain(r)
	}
	return got, err
}

// finish ends the archive.
func (w *writer) finish() error {
	return w.tw.Close()
}
