package testdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/procfs"
)

// prefix of the directory that a process has in TMPDIR. The process's ID follows.
const prefix = "corral-test-"

// own is this process's directory, which is there while a test uses it.
var own struct {
	sync.Mutex
	lock  *os.File
	dir   string
	users int
	swept bool
}

// New returns an empty directory. When t ends it is removed, with what lives in
// it.
func New(t testing.TB) string {
	t.Helper()
	dir, err := acquire()
	if dir == "" {
		t.Fatalf("cannot make a directory for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(remove(dir, false), release()); err != nil {
			t.Errorf("cannot clean up after the test: %v", err)
		}
	})
	if err != nil {
		t.Errorf("cannot clean up after an earlier test: %v", err)
	}
	return dir
}

// acquire returns a new directory, also with an error if that concerns what
// dead processes left.
func acquire() (dir string, err error) {
	own.Lock()
	defer own.Unlock()
	if !own.swept {
		own.swept = true
		err = sweep(os.TempDir())
	}
	if own.users == 0 {
		var made error
		if own.lock, own.dir, made = makeLocked(os.TempDir()); made != nil {
			return "", made
		}
	}
	dir, made := os.MkdirTemp(own.dir, "")
	if made != nil {
		return "", errors.Join(made, closeUnused())
	}
	own.users++
	return dir, err
}

func release() error {
	own.Lock()
	defer own.Unlock()
	own.users--
	return closeUnused()
}

func closeUnused() error {
	if own.users > 0 {
		return nil
	}
	err := os.Remove(own.dir)
	own.lock.Close() // with it the lock goes
	return err
}

// makeLocked makes a directory and locks it. The lock is on the directory
// itself, so that there is no moment at which it has none that tells a dead
// process from one that is about to lock.
func makeLocked(tmp string) (*os.File, string, error) {
	for n := 0; ; {
		// The paths of some engines' sockets and directories may have 50 bytes.
		dir := filepath.Join(tmp, fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), n))
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			n++
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if dir, err = filepath.EvalSymlinks(dir); err == nil {
			var lock *os.File
			if lock, err = lockDir(dir); err == nil {
				return lock, dir, nil
			}
		}
		if !errors.Is(err, errLives) && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
		// A sweep took it for that of a dead process.
	}
}

var errLives = errors.New("its process lives")

// lockDir locks a directory of this user; errLives if another process has.
func lockDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir)
	if err := lockOpen(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func lockOpen(f *os.File) error {
	var opened, named unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &opened); err != nil {
		return err
	}
	if int(opened.Uid) != os.Geteuid() {
		return fs.ErrPermission
	}
	// Of the open file description, as every lock that has to end with its
	// process and with nothing else.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return errLives
		}
		return fmt.Errorf("cannot lock %s: %w", f.Name(), err)
	}
	if err := unix.Lstat(f.Name(), &named); err != nil || named.Ino != opened.Ino {
		return fs.ErrNotExist
	}
	return nil
}

// sweep removes the directories of dead processes, and the containers of such as are gone.
func sweep(tmp string) error {
	dirs, err := filepath.Glob(filepath.Join(tmp, prefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		lock, err := lockDir(dir)
		for end := time.Now().Add(forkLimit); errors.Is(err, errLives) && isDead(dir) && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			lock, err = lockDir(dir)
		}
		if errors.Is(err, errLives) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, remove(dir, true))
		lock.Close()
	}
	return errors.Join(append(errs, removeOrphans(tmp))...)
}

// forkLimit is how long a lock may outlive its process: a child that was about to execute
// a program when the process was killed has the lock until it does.
const forkLimit = 2 * time.Second

// isDead reports whether a directory's process has ended, by the directory's name.
func isDead(dir string) bool {
	pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
	s, err := procfs.Read("/proc/" + pid)
	return err != nil || s.Ended() || s.Exiting()
}
