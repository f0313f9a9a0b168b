package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

// idmapDir has mounts for as long as a container takes to start. They are in no
// directory that anybody removes with what is in it, since that is the
// workspace.
const idmapDir = "/run/corral-mounts"

// idmap mounts a directory so that what is from's on the disk is to's there, and
// the other way round. IDs of others are nobody's.
func idmap(dir string, from, to files.User) (target string, release func() error, err error) {
	// The engine's runtime has to get through it as another user, and there are
	// no names in it that can be guessed.
	if err := os.MkdirAll(idmapDir, 0o711); err != nil {
		return "", nil, err
	}
	sweepIdmaps()
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return "", nil, fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(tree)
	ns, err := userNamespace(from, to)
	if err != nil {
		return "", nil, err
	}
	defer ns.Close()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return "", nil, fmt.Errorf("mount_setattr: %w", err)
	}
	target = filepath.Join(idmapDir, strconv.Itoa(os.Getpid())+"-"+corral.NewID())
	if err := os.Mkdir(target, 0o711); err != nil {
		return "", nil, err
	}
	release = func() error { return unmount(target) }
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", nil, errors.Join(fmt.Errorf("move_mount: %w", err), os.Remove(target))
	}
	return target, release, nil
}

// unmount removes a mount and its directory, but nothing that is in it.
func unmount(target string) error {
	err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // it is none
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepIdmaps removes the mounts of programs that were killed while a container
// started.
func sweepIdmaps() {
	entries, err := os.ReadDir(idmapDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, _, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = unmount(filepath.Join(idmapDir, e.Name())) // another may have been faster
		}
	}
}

// userNamespace is a user namespace in which from is who to is outside. It needs
// a process, which never runs: a tracee stops when it is executed.
func userNamespace(from, to files.User) (*os.File, error) {
	runtime.LockOSThread() // which is the tracer
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{"corral-idmap"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: from.UID, HostID: to.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: from.GID, HostID: to.GID, Size: 1}},
		Ptrace:      true, Pdeathsig: syscall.SIGKILL,
	}})
	if err != nil {
		return nil, fmt.Errorf("cannot make a user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	err = errors.Join(err, p.Kill())
	if _, werr := p.Wait(); werr != nil {
		err = errors.Join(err, werr)
	}
	if err != nil && f != nil {
		f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make a user namespace: %w", err)
	}
	return f, nil
}
