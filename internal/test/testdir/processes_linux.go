package testdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/procfs"
)

func tasks() ([]procfs.Stat, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []procfs.Stat
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if t, err := procfs.Read("/proc/" + name); err == nil { // else it has ended
			all = append(all, t)
		}
	}
	return all, nil
}

// killWarden kills the warden that holds a lock, with everything below it, and
// returns its process ID: also that of one that was dead before. The warden is
// stopped first. It is whom all orphans come to, so nothing gets away, and it
// can start and report nothing more.
func killWarden(lock string) (pid int, err error) {
	f, err := os.Open(lock)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for end := time.Now().Add(deathLimit); ; time.Sleep(2 * time.Millisecond) {
		held := unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &held); err != nil {
			return 0, fmt.Errorf("cannot look at %s: %w", lock, err)
		}
		b := make([]byte, 32)
		n, _ := f.ReadAt(b, 0) // io.EOF: it is short
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b[:n])))
		switch {
		case held.Type == unix.F_UNLCK:
			return pid, nil
		case pid > 0 && pid != os.Getpid():
			return pid, killBelow(pid)
		case time.Now().After(end):
			return 0, fmt.Errorf("%s is locked and names no process", lock)
		}
	}
}

func killBelow(warden int) error {
	if err := unix.Kill(warden, unix.SIGSTOP); err != nil {
		return ignoreGone(err)
	}
	err := killAll(fmt.Sprintf("commands of the warden %d live", warden), func(all []procfs.Stat) []int {
		below := map[int]bool{warden: true}
		var living []int
		for grown := true; grown; {
			grown = false
			for _, t := range all {
				if below[t.Parent] && !below[t.PID] {
					below[t.PID], grown = true, true
					if !t.Ended() {
						living = append(living, t.PID)
					}
				}
			}
		}
		return living
	})
	return errors.Join(err, killAll(fmt.Sprintf("the warden %d lives", warden), func(all []procfs.Stat) []int {
		return slices.DeleteFunc([]int{warden}, func(pid int) bool {
			return !slices.ContainsFunc(all, func(t procfs.Stat) bool { return t.PID == pid && !t.Ended() })
		})
	}))
}

// killAll kills what which finds among all processes, until it finds none.
func killAll(what string, which func([]procfs.Stat) []int) error {
	var failed error
	return errors.Join(within(what, func() bool {
		all, err := tasks()
		if err != nil {
			failed = err
			return true
		}
		pids := which(all)
		for _, pid := range pids {
			if err := ignoreGone(unix.Kill(pid, unix.SIGKILL)); err != nil {
				failed = fmt.Errorf("cannot kill process %d: %w", pid, err)
				return true
			}
		}
		return len(pids) == 0
	}), failed)
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// killReferrers kills the processes that a dead warden, or an executor without
// one, left: they run a program in the directory, stand in it or have it in
// their environment.
func killReferrers(dir string) error {
	return killAll("processes that refer to "+dir+" live", func(all []procfs.Stat) []int {
		spared := ancestors(all)
		var pids []int
		for _, t := range all {
			if !spared[t.PID] && !t.Ended() && refers(t, dir) {
				pids = append(pids, t.PID)
			}
		}
		return pids
	})
}

// ancestors are this process and those that wait for it.
func ancestors(all []procfs.Stat) map[int]bool {
	parent := map[int]int{}
	for _, t := range all {
		parent[t.PID] = t.Parent
	}
	line := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !line[pid]; pid = parent[pid] {
		line[pid] = true
	}
	return line
}

func refers(t procfs.Stat, dir string) bool {
	proc := "/proc/" + strconv.Itoa(t.PID)
	if exe, err := os.Readlink(proc + "/exe"); err == nil && strings.HasPrefix(exe, dir+"/") {
		return true
	}
	// A person may look around in the directory; a terminal without a
	// master, as a dead warden leaves it, does not count as one.
	if t.TTY != 0 {
		return false
	}
	if cwd, err := os.Readlink(proc + "/cwd"); err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
		return true
	}
	env, err := os.ReadFile(proc + "/environ")
	return err == nil && mentions(env, dir)
}

// mentions tells whether dir, or a file in it, is in an environment.
func mentions(env []byte, dir string) bool {
	for {
		i := bytes.Index(env, []byte(dir))
		if i < 0 {
			return false
		}
		env = env[i+len(dir):]
		if len(env) == 0 || bytes.IndexByte([]byte("\x00/:"), env[0]) >= 0 {
			return true
		}
	}
}
