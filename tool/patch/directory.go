package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

// A Directory is a Target on this machine: the workspace of the gateway's commands, or
// that of a sandbox, mounted from here. If the engine is on this machine, all workspaces
// are mounted from here, also private ones.
//
// Every operation is relative to an open handle of the directory (os.Root). So nothing
// outside of it is read or written, even while directories are being exchanged for
// symbolic links.
//
// If this program runs as root, new files belong to the owner of their directory,
// updated files keep their owner, and User says what may be changed.
type Directory struct {
	Path string
	// As is the path of the directory for commands, such as /workspace in a sandbox:
	// absolute paths in a patch begin with it. Empty: Path.
	As string
	// ReadOnly: commands may not change the workspace, so patches may not either.
	ReadOnly bool
	// User is the user of commands, by their files here. A program that is root changes
	// nothing that this user could not change, and shows nothing of it. Nil: there is no
	// other user than this program's.
	User *files.User
}

type directory struct {
	root  *os.Root
	names []string
	lock  io.Closer
	user  *files.User
}

func (d Directory) open(ctx context.Context) (workspace, error) {
	name := cmp.Or(d.As, d.Path)
	if d.ReadOnly {
		return nil, corral.Errorf(corral.ErrDenied, "give the sandbox write access to it (workspaceAccess rw)", "The workspace %s is read-only; cannot apply a patch", name)
	}
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, corral.Errorf(corral.ErrDir, "create it first", "cannot open the workspace %s: %w", name, err)
	}
	w := &directory{root: root, names: []string{filepath.ToSlash(name)}, user: d.User}
	if d.As == "" {
		abs, err := filepath.Abs(d.Path)
		if err == nil {
			w.names[0] = filepath.ToSlash(abs)
			abs, err = filepath.EvalSymlinks(abs)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cannot name the workspace %s: %w", name, err), root.Close())
		}
		w.names = append(w.names, filepath.ToSlash(abs))
	}
	if w.lock, err = lockRoot(ctx, root, w.names[0]); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return w, nil
}

func (w *directory) close() error { return errors.Join(w.lock.Close(), w.root.Close()) }

func (w *directory) roots() []string { return w.names }

func (w *directory) stat(_ context.Context, names ...string) ([]stat, error) {
	stats, link := make([]stat, len(names)), ""
	for i, name := range names {
		if link != "" && strings.HasPrefix(name, link+"/") {
			continue
		}
		info, err := w.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			continue
		case err != nil:
			return nil, err
		}
		if stats[i] = w.statOf(info); stats[i].kind == kindLink {
			link = name
		}
	}
	return stats, nil
}

func (w *directory) statOf(info fs.FileInfo) stat {
	s := stat{kind: kindOther, perm: info.Mode().Perm(), size: info.Size(), links: 1, ours: true, heirs: anyOwner, made: true}
	switch info.Mode().Type() {
	case 0:
		s.kind = kindFile
	case fs.ModeDir:
		s.kind = kindDir
	case fs.ModeSymlink:
		s.kind = kindLink
	}
	s.system(info, w.user)
	return s
}

func (w *directory) read(_ context.Context, name string, limit int64) ([]byte, stat, error) {
	before, err := w.root.Lstat(name)
	if err != nil {
		return nil, stat{}, err
	}
	if !before.Mode().IsRegular() {
		return nil, w.statOf(before), fs.ErrInvalid
	}
	// It may be a FIFO by now: opening it must not wait for a writer.
	f, err := w.root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, stat{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stat{}, err
	}
	if !os.SameFile(before, info) {
		return nil, w.statOf(info), fmt.Errorf("%s was exchanged while it was opened: %w", name, fs.ErrInvalid)
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = tooLarge(name, limit)
	}
	return content, w.statOf(info), err
}

func tooLarge(name string, limit int64) error {
	return corral.Errorf(corral.ErrInvalid, "use a command for it", "%s has more than %d bytes", name, limit)
}

func (w *directory) journals(context.Context) ([]string, error) {
	names, err := w.list(".")
	var found []string
	for _, name := range names {
		if strings.HasPrefix(name, journalPrefix) {
			found = append(found, name)
		}
	}
	return found, err
}

func (w *directory) members(_ context.Context, journal string) ([]string, error) {
	return w.list(journal)
}

func (w *directory) list(dir string) ([]string, error) {
	f, err := w.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (w *directory) mkdir(_ context.Context, name string, perm fs.FileMode, o owner) error {
	if err := w.root.Mkdir(name, atFirst(perm, 0o700, 0o777)); err != nil {
		return err
	}
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return setOwnerAndMode(f, perm, o)
}

func (w *directory) create(_ context.Context, name string, content []byte, perm fs.FileMode, o owner) error {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, atFirst(perm, 0o600, 0o666))
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = setOwnerAndMode(f, perm, o)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// atFirst is the permissions for creating a file or directory that will get perm in the
// end.
func atFirst(perm, private, public fs.FileMode) fs.FileMode {
	if perm == byUmask {
		return public
	}
	return private
}

func (w *directory) link(_ context.Context, from, to string) error { return w.root.Link(from, to) }

func (w *directory) rename(_ context.Context, from, to string) error { return w.root.Rename(from, to) }

func (w *directory) remove(_ context.Context, name string) error { return w.root.Remove(name) }

func (w *directory) sync(_ context.Context, dir string) error {
	f, err := w.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(f), f.Close())
}
