//go:build linux

package warden

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A mark is a limit of real-time processor time (RLIMIT_RTTIME) that is
// unmistakable. Limits are inherited through fork, exec, setsid and env -i; this
// one only concerns real-time processes, and is still tens of thousands of
// years.
func (s *Supervisor) newMark() uint64 {
	if s.maxMark < minMark {
		return 0
	}
	half := s.maxMark / 2
	return half + rand.Uint64N(half)
}

// forkMarked makes a process that has the mark before its first instruction: no
// descendant of it can be without.
func (s *Supervisor) forkMarked(file string, args []string, attr *syscall.ProcAttr, mark uint64) (pid int, err error) {
	switch {
	case mark == 0:
		return syscall.ForkExec(file, args, attr)
	case s.opts.ReapAll:
		// This process wears it for as long as it forks. A program that has
		// children of its own must not: they could get it.
		s.setSoft(0, mark)
		defer s.setSoft(0, s.softMark)
		return syscall.ForkExec(file, args, attr)
	}
	hold := !s.untraceable.Load() && !gainsPrivileges(file, attr.Dir)
	if hold {
		pid, err = s.forkHeld(file, args, attr, mark)
		switch err {
		case unix.EPERM, unix.EACCES, unix.ENOSYS, errNotHeld: // perhaps only to be traced
		default:
			return pid, err
		}
	}
	// The mark comes a moment late, for what the command makes in that moment.
	if pid, err = syscall.ForkExec(file, args, attr); err != nil {
		return 0, err
	}
	s.setSoft(pid, mark)
	if hold {
		s.untraceable.Store(true)
	}
	return pid, nil
}

// errNotHeld says that a process has ended before it could be marked, and before
// its first instruction.
var errNotHeld = errors.New("ended before it was marked")

// The values of si_code that say that a process has ended: it exited, was killed,
// or was killed and dumped core. See sigaction(2).
const cldExited, cldDumped = 1, 3

// forkHeld makes a process that is traced until it has the mark: the kernel stops
// such a process when it has been executed.
func (s *Supervisor) forkHeld(file string, args []string, attr *syscall.ProcAttr, mark uint64) (pid int, err error) {
	runtime.LockOSThread() // the thread that forks is the tracer
	defer runtime.UnlockOSThread()
	traced, sys := *attr, *attr.Sys
	traced.Sys, sys.Ptrace = &sys, true
	if pid, err = syscall.ForkExec(file, args, &traced); err != nil {
		return 0, err
	}
	if s.forked != nil {
		s.forked(pid)
	}
	s.setSoft(pid, mark)
	// That it has stopped is not waited for: whoever else waits for every
	// child of this program might be told instead.
	for pause := 10 * time.Microsecond; unix.PtraceDetach(pid) != nil; pause = min(2*pause, time.Millisecond) {
		// That it has stopped meanwhile is told as well, since it is traced.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.ECHILD || err == nil && info.Code >= cldExited && info.Code <= cldDumped {
			_, _ = syscall.Wait4(pid, nil, 0, nil) // unless that other has been told
			return 0, errNotHeld
		}
		time.Sleep(pause)
	}
	return pid, nil
}

// gainsPrivileges says whether a program has more rights than who executes it,
// which the kernel does not give it while it is traced.
func gainsPrivileges(file, dir string) bool {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	var st unix.Stat_t
	if unix.Stat(file, &st) != nil {
		return false // it cannot be executed
	}
	n, err := unix.Getxattr(file, "security.capability", nil)
	return st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || err == nil && n > 0
}

func (s *Supervisor) setSoft(pid int, soft uint64) {
	// It was possible at the start, and a child that has ended needs none.
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: soft, Max: s.hardMark}, nil)
}

// learnMarks finds out which marks this process's children can have.
func (s *Supervisor) learnMarks() {
	var lim unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim); err != nil {
		return
	}
	s.softMark, s.hardMark = lim.Cur, lim.Max
	// As if to set it: where limits cannot be set there are no marks.
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, &lim, nil); err == nil {
		s.maxMark = min(lim.Max, 1<<62)
	}
	s.untraceable.Store(filtered())
}

// filtered says whether system calls are filtered, or that cannot be seen. A
// filter may answer ptrace with SIGSYS, and before Linux 5.16 that ends not only
// the child but also who shares its memory: the program that forks it.
func filtered() bool {
	b, err := readFile("/proc/thread-self/status", 64<<10)
	_, line, _ := bytes.Cut(b, []byte("\nSeccomp:"))
	f := bytes.Fields(line)
	return err != nil || len(f) == 0 || string(f[0]) != "0"
}

// minMark is from where on a mark is too long a time to matter, in
// microseconds, and unlikely to be anybody else's.
const minMark = 1 << 56

func readMark(dir string) uint64 {
	b, err := readFile(dir+"/limits", 8192)
	if err != nil {
		return 0
	}
	_, line, ok := bytes.Cut(b, []byte("Max realtime timeout"))
	if f := bytes.Fields(line); ok && len(f) > 1 {
		if v, err := strconv.ParseUint(string(f[0]), 10, 64); err == nil {
			return v
		}
	}
	return 0
}
