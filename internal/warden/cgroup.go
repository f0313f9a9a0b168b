//go:build linux

package warden

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FindCgroup makes a cgroup v2 directory for commands below this process's
// own, if that has been delegated to us, and returns its path. Empty ones of
// earlier lives are removed.
func FindCgroup() string {
	mount := ""
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			mount = dir
			break
		}
	}
	b, err := readFile("/proc/self/cgroup", 64<<10)
	if mount == "" || err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		own, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		parent := filepath.Join(mount, own)
		sweepCgroups(parent)
		dir := filepath.Join(parent, cgroupPrefix+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			return ""
		}
		if unix.Access(dir+"/cgroup.kill", unix.W_OK) != nil { // Linux before 5.14
			_ = os.Remove(dir) // empty, and of no use
			return ""
		}
		return dir
	}
	return ""
}

const cgroupPrefix = "corral-"

// sweepCgroups removes the directories of wardens that are gone. Those that
// still hold a process cannot be removed, and stay.
func sweepCgroups(parent string) {
	for _, dir := range cgroupsIn(parent) { // whose name may have a \x2d in it
		name, ours := strings.CutPrefix(filepath.Base(dir), cgroupPrefix)
		if pid, err := strconv.Atoi(name); ours && err == nil && unix.Kill(pid, 0) == unix.ESRCH {
			RemoveCgroup(dir)
		}
	}
}

// RemoveCgroup removes what FindCgroup made and what is empty below it.
func RemoveCgroup(dir string) {
	if dir == "" {
		return
	}
	for _, sub := range cgroupsIn(dir) {
		RemoveCgroup(sub)
	}
	_ = os.Remove(dir) // still in use: stays
}

// makeCgroup makes p's cgroup and returns a descriptor of it, or -1.
func (s *Supervisor) makeCgroup(p *proc) int {
	if s.opts.Cgroup == "" {
		return -1
	}
	dir := s.opts.Cgroup + "/" + p.id
	if err := unix.Mkdir(dir, 0o755); err != nil {
		s.logf("cannot make the cgroup %s, the tree is found by other signs: %v", dir, err)
		return -1
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Rmdir(dir) // just made, empty
		return -1
	}
	p.cgroup = dir
	return fd
}

// removeCgroup removes p's cgroup, unless descendants go on in it: then the
// sweep of a later warden does.
func (s *Supervisor) removeCgroup(p *proc) {
	if p.cgroup == "" || unix.Rmdir(p.cgroup) == nil {
		return
	}
	if pids, ok := cgroupPIDs(p.cgroup); ok && len(pids) == 0 {
		RemoveCgroup(p.cgroup) // with those that the command made in it
	}
}

// cgroupMembers lists the living processes of a cgroup and of those below it.
func cgroupMembers(dir string) (tasks []task, ok bool) {
	pids, ok := cgroupPIDs(dir)
	if !ok || len(pids) == 0 {
		return nil, ok
	}
	for _, pid := range pids {
		if t, ok := lookAt(pid); ok && !t.Ended() {
			tasks = append(tasks, t)
		}
	}
	// One that ended before it was looked at may have left its number to
	// another. That one is not in the second list.
	again, ok := cgroupPIDs(dir)
	return slices.DeleteFunc(tasks, func(t task) bool {
		_, in := slices.BinarySearch(again, strconv.Itoa(t.PID))
		return !in
	}), ok
}

func cgroupPIDs(dir string) (pids []string, ok bool) {
	if dir == "" {
		return nil, false
	}
	b, err := readFile(dir+"/cgroup.procs", 8<<20)
	if err != nil {
		return nil, false
	}
	for _, f := range bytes.Fields(b) {
		if string(f) != "0" { // of another PID namespace
			pids = append(pids, string(f))
		}
	}
	for _, sub := range cgroupsIn(dir) {
		below, _ := cgroupPIDs(sub) // one that is gone by now has none; of a threaded one dir has them
		pids = append(pids, below...)
	}
	slices.Sort(pids)
	return pids, true
}

// cgroupsIn lists the cgroups directly below another.
func cgroupsIn(dir string) (subs []string) {
	entries, _ := os.ReadDir(dir) // after an error: those read before it
	for _, e := range entries {
		if e.IsDir() {
			subs = append(subs, filepath.Join(dir, e.Name()))
		}
	}
	return subs
}
