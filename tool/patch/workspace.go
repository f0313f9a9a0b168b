package patch

import (
	"context"
	"io/fs"
)

// A Target is a workspace that can be patched: a [Directory] of this machine, or
// what an executor's commands see ([Commands]).
type Target interface {
	// open keeps other patches off the workspace until it is closed.
	open(ctx context.Context) (workspace, error)
}

// A workspace is what a patch does to files. Names are relative to its root,
// clean, and with slashes. No method leaves the root, whatever names become
// while it runs; nor follows a symbolic link that the last element of a name is.
type workspace interface {
	// roots are what the root is called in absolute paths, the first in errors.
	roots() []string

	// stat describes names, in their order. What does not exist is kindAbsent;
	// what is below a symbolic link of the names need not be looked at.
	stat(ctx context.Context, names ...string) ([]stat, error)
	// read returns the content of a regular file, up to limit bytes, and that
	// file's description. fs.ErrInvalid if it is no regular file.
	read(ctx context.Context, name string, limit int64) ([]byte, stat, error)
	// journals are the names in the root that begin with journalPrefix.
	journals(ctx context.Context) ([]string, error)
	// members are the names in a journal, without its own.
	members(ctx context.Context, journal string) ([]string, error)

	// mkdir makes a directory.
	mkdir(ctx context.Context, name string, perm fs.FileMode, o owner) error
	// create makes a file. Its content is on the disk when it returns.
	create(ctx context.Context, name string, content []byte, perm fs.FileMode, o owner) error
	// link gives a file another name. fs.ErrExist if that is taken.
	link(ctx context.Context, from, to string) error
	// rename gives a file or an empty directory another name at once, in the
	// place of the file that has it.
	rename(ctx context.Context, from, to string) error
	// remove removes a file or an empty directory.
	remove(ctx context.Context, name string) error
	// sync has changes of names in a directory on the disk when it returns.
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
	ours  bool   // what we make in its place can have the same owner
	heirs owner  // of what is made in it, if it is a directory
	made  bool   // by us, and only we can change what is in it
	id    string // of the file, whatever its name
}

// owner of a file. -1 is whatever it is by itself.
type owner struct{ uid, gid int }

var anyOwner = owner{-1, -1}

// byUmask stands for the permissions of a new file or directory.
const byUmask = fs.FileMode(1 << 31)

// journalPrefix is what the directories begin with that a patch keeps what it
// needs in.
const journalPrefix = ".corral-patch-"
