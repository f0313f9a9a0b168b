package testdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

// What a directory is searched for; a test compares the names with the
// originals, which this package does not import.
const (
	wardenLock   = "warden.lock" // a host warden lives where this file is
	sandboxesDir = "sandboxes"   // in the state directory of sandboxes
	cgroupPrefix = "corral-"     // of a warden's cgroup; its process ID follows
)

// deathLimit bounds the time until killed processes are gone.
const deathLimit = 10 * time.Second

// remove removes a directory with what lives in it: containers, wardens with
// all they supervise, what else refers to the directory, and its files. Without
// a sign of sandboxes the engine is not asked for them, unless ask is set.
func remove(dir string, ask bool) error {
	locks, sandboxes, err := find(dir)
	if err != nil {
		return err
	}
	var errs []error
	if sandboxes || ask {
		errs = append(errs, removeContainers(func(c container.Summary) bool { return uses(c, dir) }))
		for _, remove := range otherContainers() {
			errs = append(errs, remove(dir))
		}
	}
	var pids []int
	for _, lock := range locks {
		pid, err := killWarden(lock)
		errs = append(errs, err)
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	errs = append(errs, killReferrers(dir), removeCgroups(pids), unmount(dir), removeFiles(dir))
	return errors.Join(errs...)
}

// find looks for the lock files of wardens and the directories of sandboxes.
func find(dir string) (locks []string, sandboxes bool, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // a command removed or closed it
		case err != nil:
			return err
		case d.IsDir() && d.Name() == sandboxesDir:
			sandboxes = true
		case d.Name() == wardenLock && d.Type().IsRegular():
			locks = append(locks, path)
		}
		return nil
	})
	return locks, sandboxes, err
}

// unmount undoes mounts below a directory: those of an engine that died.
func unmount(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		// The fifth is where it is; names of ours have nothing to escape.
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			if err := unix.Unmount(fields[4], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				errs = append(errs, fmt.Errorf("cannot unmount %s: %w", fields[4], err))
			}
		}
	}
	return errors.Join(errs...)
}

// removeFiles is os.RemoveAll also where a command has closed a directory.
func removeFiles(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // then RemoveAll says so again
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// removeCgroups removes those of dead wardens.
func removeCgroups(pids []int) error {
	if len(pids) == 0 {
		return nil
	}
	mount, err := cgroupMount()
	if mount == "" || err != nil {
		return err
	}
	all, err := tasks()
	if err != nil {
		return err
	}
	dead := map[string]bool{}
	for _, pid := range pids {
		dead[cgroupPrefix+strconv.Itoa(pid)] = true
	}
	for _, t := range all { // a number may be another's by now
		if !t.Ended() {
			delete(dead, cgroupPrefix+strconv.Itoa(t.PID))
		}
	}
	return filepath.WalkDir(mount, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // gone meanwhile, or not ours to see
		}
		if dead[d.Name()] {
			if err := removeCgroup(path); err != nil {
				return err
			}
			return fs.SkipDir
		}
		return nil
	})
}

func removeCgroup(dir string) error {
	below, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range below {
		if d.IsDir() {
			if err := removeCgroup(filepath.Join(dir, d.Name())); err != nil {
				return err
			}
		}
	}
	// Processes that were killed count until they are reaped.
	return within("the cgroup "+dir+" is in use", func() bool {
		err := unix.Rmdir(dir)
		return err == nil || err == unix.ENOENT
	})
}

// cgroupMount is where the version 2 hierarchy is mounted; empty if nowhere.
func cgroupMount() (string, error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1], nil
		}
	}
	return "", nil
}

// within waits for done, and then gives up with an error.
func within(what string, done func() bool) error {
	for end := time.Now().Add(deathLimit); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s after %v", what, deathLimit)
		}
	}
	return nil
}
