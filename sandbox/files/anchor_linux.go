package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// openAnchor opens the workspace. With portable it does as on other systems.
func openAnchor(name string, portable bool) (anchor, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	a := fdAnchor(fd)
	if !portable {
		var d dir
		if d, err = a.walk("."); err == nil {
			return a, d.Close()
		}
	}
	unix.Close(fd)
	// Kernels before 5.6 do not have openat2, and container engines of that
	// time do not let it through.
	if portable || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openRoot(name)
	}
	return nil, err
}

// An fdAnchor is a directory's descriptor.
type fdAnchor int

// again repeats what a signal interrupted, and a walk beside which directories
// were renamed, for which the kernel cannot tell whether it stayed inside.
func again[T any](do func() (T, error)) (v T, err error) {
	for range 1000 {
		if v, err = do(); err != unix.EINTR && err != unix.EAGAIN { //nolint:errorlint // an Errno itself
			return v, err
		}
	}
	return v, err
}

func (a fdAnchor) walk(name string) (dir, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat2(int(a), name, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
	})
	if err == unix.EXDEV { //nolint:errorlint // an Errno itself
		return nil, errEscape
	}
	if err != nil {
		return nil, err
	}
	return &fdDir{fd: fd}, nil
}

func (a fdAnchor) Close() error { return unix.Close(int(a)) }

// An fdDir is a directory's descriptor, which can do nothing but be a place.
type fdDir struct {
	fd   int
	list *os.File // the same directory, for reading, once that was asked for
}

func (d *fdDir) Close() error {
	err := unix.Close(d.fd)
	if d.list != nil {
		err = errors.Join(err, d.list.Close())
	}
	return err
}

func (d *fdDir) lstat(name string) (stat, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stat{}, err
	}
	s := stat{
		mode: Mode(st.Mode) & permBits, special: st.Mode & 0o7000, size: st.Size, uid: int(st.Uid), gid: int(st.Gid),
		mtime: time.Unix(st.Mtim.Unix()), typ: typeUnknown,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		s.typ = TypeFile
	case unix.S_IFDIR:
		s.typ = TypeDir
	case unix.S_IFLNK:
		s.typ = TypeLink
	case unix.S_IFIFO:
		s.typ = TypeFIFO
	case unix.S_IFSOCK:
		s.typ = TypeSocket
	case unix.S_IFCHR, unix.S_IFBLK:
		s.typ = TypeDevice
	}
	return s, nil
}

func (d *fdDir) readlink(name string) (string, error) {
	b := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(d.fd, name, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

func (d *fdDir) attributes(name string) map[string]string { return attributes(d.fd, name) }

func (d *fdDir) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(d.fd, name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, uint32(perm))
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (d *fdDir) sub(name string) (dir, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &fdDir{fd: fd}, nil
}

func (d *fdDir) names(n int) ([]string, error) {
	if d.list == nil {
		fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		d.list = os.NewFile(uintptr(fd), ".")
	}
	return d.list.Readdirnames(n)
}

func (d *fdDir) mkdir(name string, perm fs.FileMode) error {
	return unix.Mkdirat(d.fd, name, uint32(perm))
}

func (d *fdDir) symlink(target, name string) error { return unix.Symlinkat(target, d.fd, name) }

func (d *fdDir) link(from dir, name, as string) error {
	return unix.Linkat(from.(*fdDir).fd, name, d.fd, as, 0)
}

func (d *fdDir) rename(name string, to dir, as string) error {
	return unix.Renameat(d.fd, name, to.(*fdDir).fd, as)
}

func (d *fdDir) exchange(name, with string) error {
	return unix.Renameat2(d.fd, name, d.fd, with, unix.RENAME_EXCHANGE)
}

func (d *fdDir) remove(name string, directory bool) error {
	flags := 0
	if directory {
		flags = unix.AT_REMOVEDIR
	}
	return unix.Unlinkat(d.fd, name, flags)
}

// chmod changes a directory by a descriptor of it: fchmodat would follow a link
// that has taken its place.
func (d *fdDir) chmod(name string, perm fs.FileMode) error {
	fd, err := unix.Openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(path.Join("/proc/self/fd", strconv.Itoa(fd)), uint32(perm))
}

func (d *fdDir) settle(f *os.File, perm fs.FileMode, mtime time.Time) error {
	if err := unix.Fchmod(int(f.Fd()), uint32(perm)); err != nil {
		return err
	}
	if mtime.IsZero() {
		return nil
	}
	t := unix.NsecToTimeval(mtime.UnixNano())
	return unix.Futimes(int(f.Fd()), []unix.Timeval{t, t})
}
