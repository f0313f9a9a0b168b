package patch

import (
	"context"
	"io/fs"
)

// A Target is a workspace that can be patched: a [Directory] of this machine, or the
// directory that an executor's commands see ([Commands]).
type Target interface {
	// open keeps other patches off the workspace until it is closed.
	open(ctx context.Context) (workspace, error)
}

// A workspace has the operations of a patch on files. Names are relative to its root,
// clean, and with slashes. No method leaves the root, even if files are exchanged for
// symbolic links while it runs. None follows a symbolic link in the last element of a name.
type workspace interface {
	// roots are the absolute paths of the root; errors show the first.
	roots() []string

	// stat describes names, in their order. A missing file has kindAbsent; files below
	// a symbolic link among the names need not be described.
	stat(ctx context.Context, names ...string) ([]stat, error)
	// read returns the content of a regular file, up to limit bytes, and the file's
	// description. It returns fs.ErrInvalid if it is no regular file.
	read(ctx context.Context, name string, limit int64) ([]byte, stat, error)
	// journals are the names in the root that begin with journalPrefix.
	journals(ctx context.Context) ([]string, error)
	// members are the names in a journal, without its own.
	members(ctx context.Context, journal string) ([]string, error)

	// mkdir makes a directory.
	mkdir(ctx context.Context, name string, perm fs.FileMode, o owner) error
	// create makes a file. Its content is on the disk when it returns.
	create(ctx context.Context, name string, content []byte, perm fs.FileMode, o owner) error
	// link gives a file another name. It returns fs.ErrExist if the name is taken.
	link(ctx context.Context, from, to string) error
	// rename renames a file or an empty directory in one step, and replaces a file of
	// the new name.
	rename(ctx context.Context, from, to string) error
	// remove removes a file or an empty directory.
	remove(ctx context.Context, name string) error
	// sync writes changes of names in a directory to the disk.
	sync(ctx context.Context, dir string) error

	close() error
}

type kind uint8

const (
	kindAbsent kind = iota
	kindFile
	kindDir
	kindLink
	kindOther // a device, a FIFO, a socket
)

func (k kind) String() string {
	return [...]string{"nothing", "a file", "a directory", "a symbolic link", "a special file (a device, FIFO or socket)"}[k]
}

type stat struct {
	kind  kind
	perm  fs.FileMode // permission bits
	size  int64
	links uint64 // names of the file
	owner owner
	ours  bool   // a file that we make in its place can have the same owner
	heirs owner  // for a directory: the owner of new files in it
	made  bool   // we made it, and only we can change its content
	id    string // identifies the file under all its names

	// Of a directory, where the kernel asks nobody because we are root: commands may not
	// enter it, and not change which files are in it.
	closed, fixed bool
}

// owner of a file. -1: the system's default.
type owner struct{ uid, gid int }

var anyOwner = owner{-1, -1}

// byUmask stands for the permissions of a new file or directory.
const byUmask = fs.FileMode(1 << 31)

// journalPrefix begins the names of journals.
const journalPrefix = ".corral-patch-"
