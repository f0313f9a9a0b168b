package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxAccounts bounds an image's /etc/passwd, in bytes.
const maxAccounts = 1 << 20

// nameUser has a container that runs know its user by a name: before any command,
// files of the box are mounted over its /etc/passwd and /etc/group. An image
// without them, or whose files are larger than anybody's, stays as it is.
func (s *setup) nameUser(box string, pid int, user string) error {
	uid, gid := splitUser(user)
	ownUID, ownGID := splitUser(s.User)
	root, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return ignoreMissing(err) // it has ended
	}
	defer unix.Close(root)
	for _, f := range []struct {
		name string
		with func([]byte) []byte
	}{
		{"passwd", func(b []byte) []byte { return withAccount(b, ownUID, uid, gid) }},
		{"group", func(b []byte) []byte { return withGroup(b, ownGID, gid) }},
	} {
		if err := replaceIn(root, pid, "etc/"+f.name, filepath.Join(box, f.name), f.with); err != nil {
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
	return inMountsOf(pid, func() error {
		// What the file leads to was opened above, within the container's root.
		return unix.MoveMount(tree, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// inMountsOf does something on a thread that is in the mount namespace of a
// process. The thread ends with it.
func inMountsOf(pid int, do func() error) error {
	ns, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer unix.Close(ns)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for ever
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(ns, unix.CLONE_NEWNS)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
