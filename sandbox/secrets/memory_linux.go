package secrets

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// memoryDir is a directory of ours whose files are in memory; it is made if that
// is asked for.
func memoryDir(make bool) (string, error) {
	parents := []string{"/run/corral"}
	if os.Geteuid() != 0 {
		parents = []string{"/dev/shm/corral-" + strconv.Itoa(os.Geteuid())}
		if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
			parents = []string{filepath.Join(dir, "corral"), parents[0]}
		}
	} else {
		parents = append(parents, "/dev/shm/corral-0")
	}
	var errs []error
	for _, dir := range parents {
		err := ownMemory(dir, make)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", corral.Errorf(corral.ErrUnavailable, "mount a tmpfs at /run, or set XDG_RUNTIME_DIR to a directory on one", "there is no place in memory for secrets: %w", errors.Join(errs...))
}

// ownMemory looks at a directory, which has to be ours and on a tmpfs.
func ownMemory(dir string, make bool) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(dir), &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: filepath.Dir(dir), Err: err}
	}
	if fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.RAMFS_MAGIC {
		return errors.New(filepath.Dir(dir) + " is not in memory")
	}
	if make {
		if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return errors.New(dir + " is not this user's own directory")
	}
	return nil
}
