//go:build linux

package warden

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/procfs"
)

// A command's tree is found by several signs, since each alone is lost by
// something that programs commonly do:
//
//	cgroup        everything, where there is one; nothing leaves it
//	session       lost by setsid
//	parent        lost when the parent ends
//	environment   CORRAL_PROCESS=ID; lost by env -i, kept by setsid
//	mark          a limit that no other program sets; lost only on purpose
//	pipes         the command's output; lost by redirecting it
//
// A process that is hostile enough to lose all of them, without a cgroup, goes
// on until its sandbox is removed.

// task is a process as /proc shows it.
type task = procfs.Stat

// members lists the living processes of p's tree, the command's own first: a
// shell whose child is signalled before it would report that as an exit code.
func (s *Supervisor) members(p *proc) []task {
	tasks := s.tree(p)
	if i := slices.IndexFunc(tasks, func(t task) bool { return t.PID == p.pid }); i > 0 {
		tasks[0], tasks[i] = tasks[i], tasks[0]
	}
	return tasks
}

func (s *Supervisor) tree(p *proc) []task {
	if tasks, ok := cgroupMembers(p.cgroup); ok {
		return tasks
	}
	tasks := listTasks()
	// Asked after the look: until the command's own process has been reaped its
	// number is no other's, nor is that of its session.
	s.mu.Lock()
	byNumber := !p.reaped && p.pid != 0
	s.mu.Unlock()
	return s.treeAmong(tasks, p, byNumber)
}

// treeAmong is that part of p's tree that is among tasks. byNumber says that
// p.pid is no other process's.
func (s *Supervisor) treeAmong(tasks []task, p *proc, byNumber bool) []task {
	pipes := s.pipesOf(p)
	in := map[int]bool{}
	for _, t := range tasks {
		if t.PID == s.self || t.Ended() {
			continue
		}
		bySession := byNumber && (t.Session == p.pid || t.Group == p.pid)
		if bySession || s.carriesSign(t, p, pipes) {
			in[t.PID] = true
		}
	}
	for again := true; again; {
		again = false
		for _, t := range tasks {
			if !t.Ended() && !in[t.PID] && in[t.Parent] && t.PID != s.self {
				in[t.PID] = true
				again = true
			}
		}
	}
	return slices.DeleteFunc(tasks, func(t task) bool { return !in[t.PID] })
}

func (s *Supervisor) carriesSign(t task, p *proc, pipes map[pipeID]bool) bool {
	dir := "/proc/" + strconv.Itoa(t.PID)
	if p.mark != 0 && readMark(dir) == p.mark {
		return true
	}
	if env, err := readFile(dir+"/environ", 4<<20); err == nil {
		if want := []byte(EnvID + "=" + p.id); bytes.HasPrefix(env, append(want[:len(want):len(want)], 0)) ||
			bytes.Contains(env, append(append([]byte{0}, want...), 0)) {
			return true
		}
	}
	// Orphans come to a warden; without one they go anywhere.
	if s.opts.ReapAll && t.Parent != s.self {
		return false
	}
	for _, fd := range []string{"0", "1", "2"} {
		var st unix.Stat_t
		if unix.Stat(dir+"/fd/"+fd, &st) != nil {
			continue
		}
		if id, ok := idOf(&st); ok && pipes[id] {
			return true
		}
	}
	return false
}

func listTasks() []task {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what was read is what there is
	tasks := make([]task, 0, len(names))
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if t, ok := lookAt(name); ok {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// lookAt reads what /proc shows of a process; false if it is gone.
func lookAt(pid string) (task, bool) {
	b, err := readFile("/proc/"+pid+"/stat", 4096)
	if err != nil {
		return task{}, false
	}
	t, err := procfs.Parse(b)
	return t, err == nil
}

// ticks is the time since the machine started as /proc has it, in 1/100 s.
func ticks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return uint64(now.Nano() / 1e7)
}

// readFile reads at most limit bytes of a file of /proc.
func readFile(name string, limit int) ([]byte, error) {
	f, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(f)
	var b []byte
	buf := make([]byte, 4096)
	for len(b) < limit {
		n, err := unix.Read(f, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		b = append(b, buf[:n]...)
	}
	return b, nil
}

// strike sends a signal to every process of p's tree that is not in struck, which
// gets them, and returns how many there were.
func (s *Supervisor) strike(p *proc, sig unix.Signal, struck map[int]bool) (n int) {
	s.looking <- struct{}{}
	defer func() { <-s.looking }()
	tasks := s.members(p)
	if s.listed != nil {
		s.listed(tasks)
	}
	for _, t := range tasks {
		if !struck[t.PID] {
			struck[t.PID] = true
			n++
			s.send(t, sig)
		}
	}
	return n
}

// killTree kills every process of p's tree and returns how many there were.
// They are stopped first, until no new one turns up: a tree that forks faster
// than it is looked at would otherwise outrun the killing.
func (s *Supervisor) killTree(p *proc) int {
	stopped := map[int]bool{}
	for round := 0; round < 100; round++ {
		if s.strike(p, unix.SIGSTOP, stopped) == 0 {
			break
		}
	}
	if p.cgroup != "" && len(stopped) > 0 {
		// All at once; if that fails, one by one.
		_ = os.WriteFile(p.cgroup+"/cgroup.kill", []byte("1"), 0)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		left := map[int]bool{}
		if s.strike(p, unix.SIGKILL, left) == 0 {
			return len(stopped)
		}
		if time.Now().After(deadline) {
			s.logf("processes of %s do not die: %v", p.id, slices.Sorted(maps.Keys(left)))
			return len(stopped)
		}
	}
}

// expire ends a command whose time is over: SIGTERM, then SIGKILL.
func (s *Supervisor) expire(p *proc) {
	s.mu.Lock()
	if p.exited != nil || s.closing {
		s.mu.Unlock()
		return
	}
	s.wg.Add(1)
	defer s.wg.Done()
	p.timedOut = true
	if p.grace > 0 {
		p.timer = time.AfterFunc(p.grace, func() {
			s.mu.Lock()
			over := p.exited != nil || s.closing
			if !over {
				s.wg.Add(1)
			}
			s.mu.Unlock()
			if !over {
				defer s.wg.Done()
				s.killTree(p)
			}
		})
	}
	s.mu.Unlock()
	if p.grace <= 0 {
		s.killTree(p)
		return
	}
	s.strike(p, unix.SIGTERM, map[int]bool{})
}
