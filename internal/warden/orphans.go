//go:build linux

package warden

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// orphans lists what a command left running whose own process has been reaped
// just now, as Exited says it.
func (s *Supervisor) orphans(p *proc) []string {
	tasks, ok := cgroupMembers(p.cgroup)
	if !ok {
		known := false
		if tasks, known = s.adopted(); !known {
			tasks, known = younger(p)
		}
		if !known {
			tasks = listTasks()
		}
		tasks = slices.DeleteFunc(tasks, func(t task) bool { return t.Started < p.ticks })
		if len(tasks) == 0 { // nearly always
			return nil
		}
		// The number of a process is not given to another while it is that
		// of a session or group, so it is still this command's.
		tasks = s.treeAmong(tasks, p, true)
	}
	slices.SortFunc(tasks, func(a, b task) int { return a.PID - b.PID })
	tasks = tasks[:min(len(tasks), wire.MaxOrphans)]
	list := make([]string, len(tasks))
	for i, t := range tasks {
		list[i] = strconv.Itoa(t.PID)
	}
	return list
}

// adopted lists the processes that became this one's children when their parents
// ended, and everything below them: what a command left is among these, since
// its children are given away before it can be reaped. known is false if the kernel
// does not tell, or another process adopts them. To look at every process there is
// would take longer than most commands do.
func (s *Supervisor) adopted() (tasks []task, known bool) {
	if !s.opts.ReapAll {
		return nil, false
	}
	if unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		return nil, true // no child at all
	}
	// The first thread of a process adopts, unless it has ended, as that of a
	// Go program never does.
	next, known := childrenOf(s.self, strconv.Itoa(s.self))
	s.mu.Lock()
	next = slices.DeleteFunc(next, func(pid int) bool { return s.byPID[pid] != nil })
	s.mu.Unlock()
	for len(next) > 0 {
		pid := next[0]
		next = next[1:]
		dir := "/proc/" + strconv.Itoa(pid)
		t, ok := lookAt(strconv.Itoa(pid))
		if !ok {
			continue // it has ended, and its children are this one's by now
		}
		tasks = append(tasks, t)
		threads, _ := os.ReadDir(dir + "/task") // what was read is what there is
		for _, thread := range threads {
			below, _ := childrenOf(pid, thread.Name())
			next = append(next, below...)
		}
	}
	return tasks, known
}

// younger lists the processes that were made after a command's own, which all that
// it left are among: their numbers are between its own and the last that was given
// away. known is false where there are too many of them, or numbers may have begun
// anew.
func younger(p *proc) (tasks []task, known bool) {
	const (
		most  = 256 // looks at single processes cost less than a list of all up to here
		lived = 100 // ticks, in which no machine gives away all its numbers
	)
	last := lastPID()
	if last < p.pid || last-p.pid > most || ticks()-p.ticks > lived {
		return nil, false
	}
	for pid := p.pid + 1; pid <= last; pid++ {
		if t, ok := lookAt(strconv.Itoa(pid)); ok && !isThread(pid) {
			tasks = append(tasks, t)
		}
	}
	return tasks, true
}

// isThread reports whether a number is that of a thread other than the first of its
// process, which /proc has too and does not list.
func isThread(pid int) bool {
	b, err := readFile("/proc/"+strconv.Itoa(pid)+"/status", 8192)
	return err == nil && !bytes.Contains(b, []byte("\nTgid:\t"+strconv.Itoa(pid)+"\n"))
}

// lastPID is the number that was given to a process or thread last; 0 if that
// cannot be read.
func lastPID() int {
	b, err := readFile("/proc/loadavg", 256)
	if err != nil {
		return 0
	}
	last, err := strconv.Atoi(string(bytes.TrimSpace(b[bytes.LastIndexByte(b, ' ')+1:])))
	if err != nil {
		return 0
	}
	return last
}

// childrenOf lists the children of a thread of a process. It is false where there
// is no such list (CONFIG_PROC_CHILDREN).
func childrenOf(pid int, thread string) (pids []int, ok bool) {
	b, err := readFile("/proc/"+strconv.Itoa(pid)+"/task/"+thread+"/children", 1<<20)
	if err != nil {
		return nil, false
	}
	for _, f := range bytes.Fields(b) {
		if child, err := strconv.Atoi(string(f)); err == nil {
			pids = append(pids, child)
		}
	}
	return pids, true
}
