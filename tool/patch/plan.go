package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// A plan is a patch that is computed in memory, file by file. A hunk sees the results of
// those before it, so several hunks may change one file. In the end, the difference
// between before and after is applied.
type plan struct {
	ws    workspace
	files map[string]*file
	order []*file
	total int64 // bytes of content in memory

	sum summing
}

// maxTotal bounds the content of all files of a patch, before and after, in
// bytes.
const maxTotal = 64 << 20

// A file that a patch concerns.
type file struct {
	name   string // relative to the root
	before stat
	was    []byte // the content before, if read
	read   bool
	dir    stat     // of the nearest directory that exists
	parent []string // directories that do not exist, from the outermost

	exists  bool // after the patch
	written bool // by the patch, with data
	data    []byte
	perm    fs.FileMode
	owner   owner
}

func (f *file) changes() bool {
	if (f.before.kind != kindAbsent) != f.exists {
		return true
	}
	return f.exists && f.written && (!f.read || f.perm != f.before.perm || !bytes.Equal(f.was, f.data))
}

func makePlan(ctx context.Context, ws workspace, p Patch) (*plan, error) {
	pl := &plan{ws: ws, files: map[string]*file{}}
	for _, h := range p.Hunks {
		if err := pl.hunk(ctx, h); err != nil {
			return nil, err
		}
		if pl.total > maxTotal {
			return nil, corral.Errorf(corral.ErrInvalid, "make several patches of it", "the files of the patch have more than %d bytes together", maxTotal)
		}
	}
	return pl, pl.distinct()
}

func (pl *plan) hunk(ctx context.Context, h Hunk) error {
	f, err := pl.file(ctx, h.Path)
	if err != nil {
		return err
	}
	switch h.Op {
	case OpAdd:
		if f.exists {
			return corral.Errorf(corral.ErrInvalid, "use '*** Update File: ' to change it", "Failed to add %s: it exists, as %v", h.Path, f.nowKind())
		}
		if err := pl.room(f, h.Path); err != nil {
			return err
		}
		pl.put(f, []byte(h.Content), byUmask, f.dir.heirs)
		pl.sum.added(f.name)
		return nil
	case OpDelete:
		switch k := f.nowKind(); {
		case !f.exists:
			return corral.Errorf(corral.ErrInvalid, "", "Failed to delete %s: it does not exist", h.Path)
		case k != kindFile && k != kindLink:
			return corral.Errorf(corral.ErrInvalid, "", "Failed to delete %s: it is %v, not a file", h.Path, k)
		}
		f.exists, f.written, f.data = false, false, nil
		pl.sum.deleted(f.name)
		return nil
	}
	if err := pl.load(ctx, f, h.Path); err != nil {
		return err
	}
	data, err := update(h, f.data)
	if err != nil {
		return err
	}
	if len(data) > MaxFile {
		return corral.Errorf(corral.ErrInvalid, "use a command for it", "Failed to update %s: it would have %d bytes, more than %d", h.Path, len(data), MaxFile)
	}
	if h.MoveTo == "" {
		pl.put(f, data, f.perm, f.owner)
		pl.sum.modified(f.name)
		return nil
	}
	to, err := pl.file(ctx, h.MoveTo)
	if err != nil {
		return err
	}
	if to == f {
		pl.put(f, data, f.perm, f.owner)
		pl.sum.modified(f.name)
		return nil
	}
	if to.exists {
		return corral.Errorf(corral.ErrInvalid, "delete it first, or choose another name", "Failed to move %s to %s: that exists, as %v", h.Path, h.MoveTo, to.nowKind())
	}
	if err := pl.room(to, h.MoveTo); err != nil {
		return err
	}
	pl.put(to, data, f.perm, f.owner)
	f.exists, f.written, f.data = false, false, nil
	pl.sum.moved(f.name, to.name)
	return nil
}

// room refuses a new file if an earlier hunk has made its directory a file, or the file's
// own path a directory.
func (pl *plan) room(f *file, written string) error {
	for _, other := range pl.order {
		switch {
		case !other.exists:
		case other.nowKind() == kindFile && strings.HasPrefix(f.name, other.name+"/"):
			return corral.Errorf(corral.ErrInvalid, "", "cannot use the path %s: %s is %v, not a directory", written, other.name, kindFile)
		case strings.HasPrefix(other.name, f.name+"/"):
			return corral.Errorf(corral.ErrInvalid, "choose another name", "cannot use the path %s: it is the directory of %s", written, other.name)
		}
	}
	return nil
}

func (pl *plan) put(f *file, data []byte, perm fs.FileMode, o owner) {
	pl.total += int64(len(data))
	f.exists, f.written, f.data, f.perm, f.owner = true, true, data, perm, o
}

// nowKind is the kind of the file after the hunks so far.
func (f *file) nowKind() kind {
	switch {
	case !f.exists:
		return kindAbsent
	case f.written:
		return kindFile
	}
	return f.before.kind
}

// file is the file of a path, after the hunks so far.
func (pl *plan) file(ctx context.Context, written string) (*file, error) {
	name, err := pl.resolve(written)
	if err != nil {
		return nil, err
	}
	if f := pl.files[name]; f != nil {
		return f, nil
	}
	f, at := &file{name: name}, ""
	names := []string{"."}
	for i, c := range name {
		if c == '/' {
			names = append(names, name[:i])
		}
	}
	stats, err := pl.ws.stat(ctx, append(names, name)...)
	if err != nil {
		return nil, fmt.Errorf("cannot look at %s: %w", written, err)
	}
	for i, dir := range names {
		switch s := stats[i]; {
		case s.kind == kindDir && s.closed:
			return nil, denied(written, "enter", dir)
		case s.kind == kindDir:
			f.dir, at = s, dir
		case s.kind == kindLink:
			return nil, corral.Errorf(corral.ErrDenied, "name the real path of the file", "Symlink escapes sandbox root (%s): %s: %s is a symbolic link, and a patch follows none", pl.root(), written, dir)
		case s.kind != kindAbsent:
			return nil, corral.Errorf(corral.ErrInvalid, "", "cannot use the path %s: %s is %v, not a directory", written, dir, s.kind)
		case i == 0:
			return nil, corral.Errorf(corral.ErrDir, "", "the workspace %s is gone", pl.root())
		default:
			f.parent = append(f.parent, dir)
		}
	}
	if f.dir.fixed {
		return nil, denied(written, "change", at)
	}
	f.before = stats[len(names)]
	f.exists, f.perm, f.owner = f.before.kind != kindAbsent, f.before.perm, f.before.owner
	pl.files[name] = f
	pl.order = append(pl.order, f)
	return f, nil
}

func denied(written, what, dir string) error {
	return corral.Errorf(corral.ErrDenied, "use files that commands may change", "cannot use the path %s: commands may not %s the directory %s", written, what, dir)
}

func isLocal(name string) bool { return filepath.IsLocal(filepath.FromSlash(name)) }

func (pl *plan) root() string { return pl.ws.roots()[0] }

// resolve turns a path in the patch into a name relative to the workspace.
func (pl *plan) resolve(written string) (string, error) {
	escapes := func() (string, error) {
		return "", corral.Errorf(corral.ErrDenied, "use paths in the workspace", "Path escapes sandbox root (%s): %s", pl.root(), written)
	}
	name := written
	if path.IsAbs(name) {
		inside := false
		for _, root := range pl.ws.roots() {
			if rest, ok := strings.CutPrefix(path.Clean(name)+"/", strings.TrimSuffix(root, "/")+"/"); ok {
				name, inside = "./"+rest, true
				break
			}
		}
		if !inside {
			return escapes()
		}
	}
	if strings.HasSuffix(written, "/") {
		return "", corral.Errorf(corral.ErrInvalid, "name a file", "the path %s is that of a directory", written)
	}
	name = path.Clean(name)
	switch {
	case name == "~", strings.HasPrefix(name, "~/"), !isLocal(name):
		return escapes()
	case name == ".":
		return "", corral.Errorf(corral.ErrInvalid, "name a file", "the path %s is the workspace itself", written)
	case strings.HasPrefix(name, journalPrefix):
		return "", corral.Errorf(corral.ErrDenied, "choose another name", "the path %s is kept for patches that are being applied (%s*)", written, journalPrefix)
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > 255 {
			return "", corral.Errorf(corral.ErrInvalid, "", "the path %s has a name of %d bytes, more than 255", cut(written), len(element))
		}
	}
	return name, nil
}

// load reads a file that is to be updated.
func (pl *plan) load(ctx context.Context, f *file, written string) error {
	fail := func(kind error, hint, why string) error {
		return corral.Errorf(kind, hint, "Failed to read file to update %s: %s", written, why)
	}
	switch k := f.nowKind(); {
	case f.written, f.read:
		return nil
	case k == kindAbsent:
		return fail(corral.ErrInvalid, "use '*** Add File: ' to make it", "it does not exist")
	case k == kindLink:
		return fail(corral.ErrDenied, "name the file that it points to", "it is a symbolic link, and a patch follows none")
	case k != kindFile:
		return fail(corral.ErrInvalid, "", "it is "+k.String()+", not a file")
	case f.before.links > 1:
		return fail(corral.ErrDenied, "use a command that writes to it, or copy it first", fmt.Sprintf("it has %d names (hard links), and would part from the others", f.before.links))
	case !f.before.ours:
		return fail(corral.ErrDenied, "use a command that writes to it", fmt.Sprintf("it belongs to user %d, and would not any more", f.before.owner.uid))
	case f.before.size > MaxFile:
		return fail(corral.ErrInvalid, "use a command for it", fmt.Sprintf("it has %d bytes, more than %d", f.before.size, MaxFile))
	}
	content, st, err := pl.ws.read(ctx, f.name, MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid), err == nil && (st.id != f.before.id || st.kind != kindFile):
		return changed(written)
	case errors.Is(err, fs.ErrPermission):
		return corral.Errorf(corral.ErrDenied, "", "Failed to read file to update %s: %w", written, err)
	case err != nil:
		return fmt.Errorf("Failed to read file to update %s: %w", written, err) //nolint:staticcheck // the text that callers know
	}
	pl.total += int64(len(content))
	f.before, f.was, f.read, f.data = st, content, true, content
	f.perm, f.owner = st.perm, st.owner
	return nil
}

// changed is the error if another program changed a file during the patch.
func changed(name string) error {
	return corral.Errorf(corral.ErrUnavailable, "read it again, and make the patch anew if need be", "%s was changed by another program while the patch was being applied", name)
}

// distinct refuses two names of the same file, as on a file system that ignores case.
func (pl *plan) distinct() error {
	seen := map[string]string{}
	for _, f := range pl.order {
		if f.before.id == "" || f.before.kind != kindFile || f.before.links > 1 {
			continue
		}
		if other, ok := seen[f.before.id]; ok {
			return corral.Errorf(corral.ErrInvalid, "use one of the names", "%s and %s are the same file", other, f.name)
		}
		seen[f.before.id] = f.name
	}
	return nil
}

// Summary lists the changed files of a patch: paths in the workspace, each in one list, in
// the order of the patch. A moved file is listed as modified, under its new path.
type Summary struct {
	Added    []string `json:"added"`
	Modified []string `json:"modified"`
	Deleted  []string `json:"deleted"`
}

// summing collects a Summary.
type summing struct {
	letters map[string]byte
	order   []string
}

func (s *summing) set(name string, letter byte) {
	if s.letters == nil {
		s.letters = map[string]byte{}
	}
	if i := slices.Index(s.order, name); i < 0 {
		s.order = append(s.order, name)
	}
	s.letters[name] = letter
}

func (s *summing) forget(name string) {
	delete(s.letters, name)
	if i := slices.Index(s.order, name); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	}
}

func (s *summing) added(name string) {
	if s.letters[name] == 'D' {
		s.set(name, 'M')
		return
	}
	s.set(name, 'A')
}

func (s *summing) modified(name string) {
	if s.letters[name] != 'A' {
		s.set(name, 'M')
	}
}

func (s *summing) deleted(name string) {
	if s.letters[name] == 'A' {
		s.forget(name)
		return
	}
	s.set(name, 'D')
}

func (s *summing) moved(from, to string) {
	letter := byte('M')
	if s.letters[from] == 'A' {
		letter = 'A'
	}
	s.forget(from)
	s.set(to, letter)
}

func (s *summing) summary() Summary {
	sum := Summary{Added: []string{}, Modified: []string{}, Deleted: []string{}}
	for _, name := range s.order {
		switch s.letters[name] {
		case 'A':
			sum.Added = append(sum.Added, name)
		case 'M':
			sum.Modified = append(sum.Modified, name)
		case 'D':
			sum.Deleted = append(sum.Deleted, name)
		}
	}
	return sum
}
