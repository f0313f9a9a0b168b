package users

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/spawn"
	"github.com/corral-exec/corral/sandbox/files"
)

// Prepare has a container that runs see files of its own, in dir, in place of three
// others, before any command. pid is its init.
//
//   - Account.Files: who its user is.
//   - /proc/sys/kernel/random/boot_id is this container's: a program that finds what
//     another one left (PID and boot ID in a file that locks something) can tell that it
//     ran in a container that is gone, and two sandboxes cannot tell that they are on the
//     same machine.
//
// A file that is not there, is larger than MaxAccounts, or is not of the image's file system
// but of what is mounted in it, stays as it is.
func Prepare(pid int, dir string, a Account, owner, shown files.User) error {
	root, ns, err := insideOf(pid)
	if err != nil {
		return ignoreMissing(err) // it has ended
	}
	defer unix.Close(root)
	defer unix.Close(ns)
	boot, err := os.ReadFile("/proc/sys/kernel/random/uuid") // each time another one, as the kernel makes them for boots
	if err != nil {
		return err
	}
	var moves []move
	defer func() {
		for _, m := range moves {
			m.close()
		}
	}()
	list := append([]File{{"proc/sys/kernel/random/boot_id", func([]byte) []byte { return boot }}}, a.Files(owner, shown)...)
	for _, f := range list {
		m, err := replacement(root, f.Path, filepath.Join(dir, filepath.Base(f.Path)), f.Change)
		if err != nil {
			return fmt.Errorf("cannot replace the sandbox's /%s: %w", f.Path, err)
		}
		if m != nil {
			moves = append(moves, *m)
		}
	}
	if err := moveInto(ns, moves); err != nil {
		return fmt.Errorf("cannot replace files of the sandbox: %w", err)
	}
	return nil
}

// A move is a mount that is to be moved onto a file.
type move struct {
	tree   int      // of the mount
	target *os.File // within the container's root
}

func (m move) close() {
	unix.Close(m.tree)
	m.target.Close()
}

// replacement is the mount, for a file of a container, of a file of this machine with its
// content changed; nil if the container's is to stay.
func replacement(root int, path, file string, change func([]byte) []byte) (_ *move, err error) {
	// It is only held until it is known to be a regular file: to open a device of the image
	// would do what its driver does then.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if !strings.HasPrefix(path, "proc/") { // what leads to the kernel's files would have us read what root alone may
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	fd, err := unix.Openat2(root, path, &how)
	if errors.Is(err, unix.EXDEV) {
		return nil, nil // it leads out of the image
	}
	if err != nil {
		return nil, ignoreMissing(err)
	}
	f, moved := os.NewFile(uintptr(fd), path), false
	defer func() {
		if !moved {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	opened, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, err
	}
	defer opened.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(opened, MaxAccounts+1))
	if err != nil || len(text) > MaxAccounts {
		return nil, err
	}
	err = os.WriteFile(file, change(text), 0o644)
	if err == nil {
		err = os.Chmod(file, 0o644) // whatever the umask is: others read it there
	}
	if err != nil {
		return nil, err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, file, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(tree)
		return nil, fmt.Errorf("mount_setattr: %w", err)
	}
	moved = true
	return &move{tree, f}, nil
}

// insideOf are the root directory and the mount namespace of one process of a container, also
// if another process gets its number meanwhile. The engine says which it is: what is not in
// a namespace of its own is not one.
func insideOf(pid int) (root, ns int, err error) {
	proc, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, -1, err
	}
	defer unix.Close(proc)
	if ns, err = unix.Openat(proc, "ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, -1, err
	}
	var its, ours unix.Stat_t
	if err = errors.Join(unix.Fstat(ns, &its), unix.Stat("/proc/thread-self/ns/mnt", &ours)); err == nil && its.Ino == ours.Ino {
		err = fmt.Errorf("process %d is in no container", pid)
	}
	if err == nil {
		root, err = unix.Openat(proc, "root", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		unix.Close(ns)
		return -1, -1, err
	}
	return root, ns, nil
}

// moveInto moves mounts onto files in a mount namespace. Only a process
// with one thread can enter it, so a child process does this and nothing else. (A thread
// of our own would have to end afterwards, and processes that it started with a
// parent-death signal would be killed.)
func moveInto(ns int, moves []move) error {
	calls := []spawn.Call{{Number: unix.SYS_SETNS, Args: [6]uintptr{uintptr(ns), unix.CLONE_NEWNS}}}
	for _, m := range moves {
		calls = append(calls, spawn.Call{Number: unix.SYS_MOVE_MOUNT, Args: [6]uintptr{
			uintptr(m.tree), uintptr(unsafe.Pointer(&empty)), m.target.Fd(), uintptr(unsafe.Pointer(&empty)),
			unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH,
		}})
	}
	if err := spawn.Calls(calls...); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

var empty [1]byte // a path

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
