package users

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

// idmapDir has mounts for as long as a container takes to start. They are in no
// directory that is removed with what is in it, since that is the
// workspace.
const idmapDir = "/run/corral-mounts"

// A Mapping is a user namespace by which mounts show one user's files as
// another's, and the other way round. All others stay who they are.
type Mapping struct{ ns *os.File }

// NewMapping shows what is disk's as shown's.
func NewMapping(disk, shown files.User) (*Mapping, error) {
	ns, err := userNamespace(swap(disk.UID, shown.UID), swap(disk.GID, shown.GID))
	if err != nil {
		return nil, err
	}
	return &Mapping{ns}, nil
}

// foreign are the IDs on the disk of what other users than root of a sandbox write there:
// those of the default range, which are no user's outside.
const foreign, foreigners = 1879048192, 65536

// NewRootMapping shows what is disk's as root's, and none of any other user of this
// machine: root of a kernel of its own may do anything with what a mount shows, but where a
// file's owner has no ID there, the machine's kernel lets no one past its rights. Other users in
// the sandbox have IDs of their own on the disk.
func NewRootMapping(disk files.User) (*Mapping, error) {
	ids := func(owner int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: owner, HostID: 0, Size: 1}, {ContainerID: foreign + 1, HostID: 1, Size: foreigners - 1}}
	}
	ns, err := userNamespace(ids(disk.UID), ids(disk.GID))
	if err != nil {
		return nil, err
	}
	return &Mapping{ns}, nil
}

// Close ends the mapping; mounts that were made by it stay.
func (m *Mapping) Close() error { return m.ns.Close() }

// clone is a mount, nowhere yet, of a file or directory that is held, with what
// is mounted below it if that is asked for.
func (m *Mapping) clone(fd int, below bool) (tree int, err error) {
	flags, at := uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH), uint(unix.AT_EMPTY_PATH)
	if below {
		flags, at = flags|unix.AT_RECURSIVE, at|unix.AT_RECURSIVE
	}
	tree, err = unix.OpenTree(fd, "", flags)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(m.ns.Fd())}
	if err := unix.MountSetattr(tree, "", at, &attr); err != nil {
		return -1, errors.Join(fmt.Errorf("mount_setattr: %w", err), unix.Close(tree))
	}
	return tree, nil
}

// Mount mounts what is held in a place of its own.
func (m *Mapping) Mount(fd int, below bool) (target string, release func() error, err error) {
	// The engine's runtime has to get through it as another user, and there are
	// no names in it that can be guessed.
	if err := errors.Join(os.MkdirAll(idmapDir, 0o711), os.Chmod(idmapDir, 0o711)); err != nil { // whatever the umask is
		return "", nil, err
	}
	sweepIdmaps()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", nil, err
	}
	tree, err := m.clone(fd, below)
	if err != nil {
		return "", nil, err
	}
	defer unix.Close(tree)
	target = filepath.Join(idmapDir, strconv.Itoa(os.Getpid())+"-"+corral.NewID())
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(target, 0o711)
	} else {
		err = os.WriteFile(target, nil, 0o600)
	}
	if err != nil {
		return "", nil, err
	}
	release = func() error { return unmount(target) }
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", nil, errors.Join(fmt.Errorf("move_mount: %w", err), os.Remove(target))
	}
	return target, release, nil
}

// unmount removes a mount and its place, but nothing that is in it.
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

// tried is for the question whether there can be a mapping.
var tried struct {
	sync.Mutex
	m *Mapping
}

// anyMapping is always the same. What kept it from being made before may have passed.
func anyMapping() (_ *Mapping, err error) {
	tried.Lock()
	defer tried.Unlock()
	if tried.m == nil {
		tried.m, err = NewMapping(files.User{UID: minUID, GID: minUID}, files.User{UID: minUID + 1, GID: minUID + 1})
	}
	return tried.m, err
}

// CheckMapped says why what is at a path, or will be, cannot be mounted with
// mapped IDs, with what is mounted below it if that is asked for. It is mounted
// nowhere.
func CheckMapped(path string, below bool) error {
	m, err := anyMapping()
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	for errors.Is(err, unix.ENOENT) && path != filepath.Dir(path) {
		path, below = filepath.Dir(path), false
		fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	tree, err := m.clone(fd, below)
	if err != nil {
		return err
	}
	return unix.Close(tree)
}

// swap maps a and b to each other, and all others to themselves.
func swap(a, b int) []syscall.SysProcIDMap {
	const ids = math.MaxUint32 // the last is no ID
	lo, hi := min(a, b), max(a, b)
	var list []syscall.SysProcIDMap
	add := func(from, to, size int) {
		if size > 0 {
			list = append(list, syscall.SysProcIDMap{ContainerID: from, HostID: to, Size: size})
		}
	}
	add(0, 0, lo)
	add(lo, hi, 1)
	add(lo+1, lo+1, hi-lo-1)
	if hi != lo {
		add(hi, lo, 1)
	}
	add(hi+1, hi+1, ids-hi-1)
	return list
}

// userNamespace is a user namespace with such IDs. It needs a process, which
// never runs: a tracee stops when it is executed.
func userNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	runtime.LockOSThread() // which is the tracer
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{"corral-idmap"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids,
		Ptrace: true, Pdeathsig: syscall.SIGKILL,
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
