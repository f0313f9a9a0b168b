package users

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/spawn"
	"github.com/corral-exec/corral/sandbox/files"
)

// maxAccounts bounds an image's /etc/passwd, in bytes.
const maxAccounts = 1 << 20

// Name has a container that runs know its user, shown, by the name that the image has
// for owner: before any command, files in dir are mounted over its /etc/passwd and
// /etc/group. pid is its init. An image without them, or with larger ones than
// maxAccounts, stays as it is. With a home directory, the name is that of the
// directory, whatever the image has for owner.
func Name(pid int, dir, home string, owner, shown files.User) error {
	root, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return ignoreMissing(err) // it has ended
	}
	defer unix.Close(root)
	for _, f := range []struct {
		name string
		with func([]byte) []byte
	}{
		{"passwd", func(b []byte) []byte { return withAccount(b, home, owner.UID, shown.UID, shown.GID) }},
		{"group", func(b []byte) []byte { return withGroup(b, home, owner.GID, shown.GID) }},
	} {
		if err := replaceIn(root, pid, "etc/"+f.name, filepath.Join(dir, f.name), f.with); err != nil {
			return fmt.Errorf("cannot name the sandbox's user in /etc/%s: %w", f.name, err)
		}
	}
	return nil
}

// replaceIn mounts, over a file of a container, a file of this machine with its
// content changed.
func replaceIn(root, pid int, name, file string, change func([]byte) []byte) error {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, name, &how)
	if err != nil {
		return ignoreMissing(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAccounts+1))
	if err != nil || len(text) > maxAccounts {
		return err
	}
	err = os.WriteFile(file, change(text), 0o644)
	if err == nil {
		err = os.Chmod(file, 0o644) // whatever the umask is: others read it there
	}
	if err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, file, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	// What the file leads to was opened above, within the container's root.
	return moveInto(pid, tree, fd)
}

// moveInto moves a mount onto a file in the mount namespace of a process. Only a
// process with one thread can enter it, so a child process does this and nothing
// else. (A thread of our own would have to end afterwards, and processes that it
// started with a parent-death signal would be killed.)
func moveInto(pid, tree, target int) error {
	ns, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer unix.Close(ns)
	err = spawn.Calls(
		spawn.Call{Number: unix.SYS_SETNS, Args: [6]uintptr{uintptr(ns), unix.CLONE_NEWNS}},
		spawn.Call{Number: unix.SYS_MOVE_MOUNT, Args: [6]uintptr{
			uintptr(tree), uintptr(unsafe.Pointer(&empty)), uintptr(target), uintptr(unsafe.Pointer(&empty)),
			unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH,
		}},
	)
	if err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

var empty [1]byte // a path

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
