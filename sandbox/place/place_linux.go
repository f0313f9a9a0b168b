package place

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Of is which directory a state directory is, wherever one looks at it from;
// that of an ephemeral sandbox may be gone, and is known by the one that it is in.
func Of(dir string, ephemeral bool) Place {
	if ephemeral {
		dir = filepath.Dir(dir)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Place{}
	}
	mounts, err := os.Readlink("/proc/thread-self/ns/mnt") // not the first thread, which may be in a container; namespaces(7): mnt:[4026531840]
	if err != nil {
		return Place{}
	}
	machine, err := os.ReadFile("/etc/machine-id") // machine-id(5)
	if err != nil {
		machine = nil // containers have none
	}
	p := Place{Machine: strings.TrimSpace(string(machine)), Boot: strings.TrimSpace(string(boot)), Mounts: mounts}
	var st unix.Stat_t
	if unix.Stat(dir, &st) == nil {
		p.Inode = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return p
}

// Use says that an ephemeral state directory is in use, until the file is closed or this
// process ends.
func Use(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot mark the state directory as in use: %w", err)
	}
	// Shared: several sandboxes can have one state directory.
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK}); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot mark the state directory %s as in use: %w", dir, err)
	}
	return f, nil
}

// InUse reports whether an ephemeral state directory is in use.
func InUse(dir string) bool {
	f, err := os.Open(filepath.Join(dir, LockName))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}
