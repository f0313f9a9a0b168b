package landlock

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
)

// createRuleset is the system call. A variable for tests.
var createRuleset = func(attr unsafe.Pointer, size, flags uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(attr), size, flags)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

var abi = onceABI()

func onceABI() func() (int, error) { return sync.OnceValues(findABI) }

// ABI is the version of Landlock that the kernel has. The error says why there is
// none, for people.
func ABI() (int, error) { return abi() }

func findABI() (int, error) {
	version, err := createRuleset(nil, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errors.Is(err, unix.ENOSYS):
		return 0, errors.New("the kernel has no Landlock (Linux 5.13 has it, if it is compiled in)")
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, errors.New("the kernel has Landlock turned off: it is not among its security modules (lsm= on its command line)")
	case err != nil:
		return 0, fmt.Errorf("the kernel does not say which Landlock it has: %w", err)
	}
	return version, nil
}

// Rights over files, by the version of Landlock from which on there are those.
const (
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	writes    = writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	execute = unix.LANDLOCK_ACCESS_FS_EXECUTE

	refer    = unix.LANDLOCK_ACCESS_FS_REFER    // 2: before it, files cannot be moved or linked into another directory
	truncate = unix.LANDLOCK_ACCESS_FS_TRUNCATE // 3: before it, files can be emptied anywhere
)

// always are files that commands write to wherever they may write: no file of the
// machine's, but devices and terminals.
var always = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// file tells files apart.
type file struct{ dev, ino uint64 }

// A ruleset is a domain as the kernel has it, and as the watch looks at it.
type ruleset struct {
	fd          int
	programs    map[file]bool
	directories []string
	loaders     map[file]bool
	hold        func(f file, fd int) error // keeps a loader

	key   string
	paths map[string]identity // nil: it is not kept
	users int
}

// newRuleset makes one. What does not exist is left out: then nothing can be
// executed or written there.
func newRuleset(d *confine.Domain, version int, hold func(f file, fd int) error) (*ruleset, error) {
	var attr unix.LandlockRulesetAttr
	if !d.AnyProgram {
		attr.Handled_access_fs |= execute
	}
	written := uint64(writes)
	if version >= 3 {
		written |= truncate
	}
	if !d.AnyFile {
		attr.Handled_access_fs |= written
	}
	if version >= 2 {
		attr.Handled_access_fs |= refer
	}
	fd, err := createRuleset(unsafe.Pointer(&attr), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a Landlock ruleset: %w", err)
	}
	r := &ruleset{fd: fd, programs: map[file]bool{}, loaders: map[file]bool{}, hold: hold, paths: map[string]identity{}}
	if err := r.fill(d, attr.Handled_access_fs); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// fill adds a rule for every path.
func (r *ruleset) fill(d *confine.Domain, handled uint64) error {
	if !d.AnyProgram {
		for _, path := range d.Programs {
			if err := r.add(path, execute, execute, r.isProgram); err != nil {
				return err
			}
			if strings.HasSuffix(path, "/") {
				r.directories = append(r.directories, path)
			}
		}
		for _, path := range d.Loaders {
			if err := r.add(path, execute, 0, r.isLoader); err != nil {
				return err
			}
		}
	}
	all := handled &^ execute
	if d.AnyFile {
		return r.add("/", 0, all, nil) // to move files, which is forbidden otherwise
	}
	for _, path := range d.Writable {
		if err := r.add(path, all&(writeFile|truncate), all, nil); err != nil {
			return err
		}
	}
	for _, path := range always {
		// Nothing is made there, or removed.
		if err := r.add(path, all&(writeFile|truncate), writeFile, nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *ruleset) isProgram(f file, _ int) error {
	r.programs[f] = true
	return nil
}

func (r *ruleset) isLoader(f file, fd int) error {
	if r.programs[f] { // a rule names it
		return nil
	}
	r.loaders[f] = true
	return r.hold(f, fd)
}

// add grants the rights to a file, or others to what is in a directory, and notes
// which file it is.
func (r *ruleset) add(path string, ofFile, ofDir uint64, is func(f file, fd int) error) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case absent(err):
		r.note(path, -1)
		return nil
	case err != nil:
		return fmt.Errorf("cannot open %s for a Landlock rule: %w", path, err)
	}
	defer unix.Close(fd)
	r.note(path, fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("cannot look at %s for a Landlock rule: %w", path, err)
	}
	access := ofFile
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		access = ofDir
	} else if is != nil {
		if err := is(file{st.Dev, st.Ino}, fd); err != nil {
			return fmt.Errorf("cannot hold %s for a Landlock rule: %w", path, err)
		}
	}
	if access == 0 {
		return nil
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("cannot make a Landlock rule for %s: %w", path, errno)
	}
	return nil
}

func (r *ruleset) close() { _ = unix.Close(r.fd) }
