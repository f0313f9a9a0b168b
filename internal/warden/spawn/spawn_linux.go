//go:build amd64 || arm64

// Package spawn makes processes, as syscall.ForkExec does. It can set what that
// cannot, between the fork and the program's first instruction: a limit of
// real-time processor time, and a Landlock ruleset. So neither a tracer nor a thread
// of its own is needed for them.
//
// A process is always the leader of a new session.
package spawn

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/spawn/vfork"
)

// Attr is what a process is made with.
type Attr struct {
	Dir   string
	Env   []string
	Files [3]int // become the descriptors 0, 1 and 2

	Terminal bool         // descriptor 0 becomes the controlling terminal
	Cgroup   int          // a descriptor of the cgroup that it is made in; 0: the one of this process
	RealTime *unix.Rlimit // RLIMIT_RTTIME; nil: that of this process
	Trace    bool         // the calling thread traces it, and it stops when it has been executed

	// Confine has the process give up gaining privileges, and puts Ruleset in force.
	Confine bool
	Ruleset int     // a descriptor of a Landlock ruleset
	Secret  uintptr // the fourth argument of execve, for a seccomp filter to look at; the kernel knows three
}

// A step is what a new process does before it executes its program.
type step int

const (
	_ step = iota
	stepSession
	stepDir
	stepFiles
	stepTerminal
	stepLimit
	stepTrace
	stepPrivileges
	stepRuleset
	stepExecute
)

var steps = [...]string{
	stepSession: "make a session", stepDir: "change to the directory", stepFiles: "put its files in place",
	stepTerminal: "have a controlling terminal", stepLimit: "limit its real-time processor time", stepTrace: "have it traced",
	stepPrivileges: "give up gaining privileges", stepRuleset: "put a Landlock ruleset in force",
}

// A ConfineError says that a process could not be confined.
type ConfineError struct{ err error }

func (e *ConfineError) Error() string { return e.err.Error() }
func (e *ConfineError) Unwrap() error { return e.err }

// Start makes a process that executes a file. The error is a syscall.Errno if it is
// the file that could not be executed.
func Start(file string, args []string, a *Attr) (pid int, err error) {
	p, err := newPlan(file, args, a)
	if err != nil {
		return 0, err
	}
	pid, err = locked(func() (uintptr, uintptr) { return fork(p) })
	runtime.KeepAlive(p)
	if err != nil {
		return 0, err
	}
	if p.errno == 0 {
		return pid, nil
	}
	_, _ = reap(pid)
	if p.step == stepExecute {
		return 0, p.errno
	}
	err = fmt.Errorf("cannot %s: %w", steps[p.step], p.errno)
	if p.step >= stepPrivileges {
		err = &ConfineError{err}
	}
	return 0, err
}

// A plan is all that the child needs. It is on the heap, which the child shares
// with this process, and says how far the child came.
type plan struct {
	clone uintptr // the number of the system call, and its arguments
	args  [2]uintptr

	file, dir  *byte
	argv, envv []*byte
	files      [3]uintptr
	restoreTo  *unix.Rlimit // of open files
	limit      *unix.Rlimit
	terminal   bool
	trace      bool
	confine    bool
	secret     uintptr
	ruleset    uintptr

	step  step
	errno syscall.Errno

	clone3 cloneArgs
}

// cloneArgs is struct clone_args, as far as it is needed.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

func newPlan(file string, args []string, a *Attr) (p *plan, err error) {
	p = &plan{
		restoreTo: openFiles(), limit: a.RealTime, terminal: a.Terminal, trace: a.Trace,
		confine: a.Confine, secret: a.Secret, ruleset: uintptr(a.Ruleset),
	}
	for i, fd := range a.Files {
		p.files[i] = uintptr(fd)
	}
	if p.file, err = syscall.BytePtrFromString(file); err != nil {
		return nil, err
	}
	if a.Dir != "" {
		if p.dir, err = syscall.BytePtrFromString(a.Dir); err != nil {
			return nil, err
		}
	}
	if p.argv, err = syscall.SlicePtrFromStrings(args); err != nil {
		return nil, err
	}
	if p.envv, err = syscall.SlicePtrFromStrings(a.Env); err != nil {
		return nil, err
	}
	flags := uintptr(unix.CLONE_VM | unix.CLONE_VFORK)
	p.clone, p.args = unix.SYS_CLONE, [2]uintptr{flags | uintptr(unix.SIGCHLD), 0}
	if a.Cgroup != 0 {
		p.clone3 = cloneArgs{flags: uint64(flags) | unix.CLONE_INTO_CGROUP, exitSignal: uint64(unix.SIGCHLD), cgroup: uint64(a.Cgroup)}
		p.clone, p.args = unix.SYS_CLONE3, [2]uintptr{uintptr(unsafe.Pointer(&p.clone3)), unsafe.Sizeof(p.clone3)}
	}
	return p, nil
}

// openFiles is the limit that package syscall raised for this process, and that
// its children are to have again; nil if it raised none, or another was set since.
func openFiles() *unix.Rlimit {
	was := unix.Rlimit{Cur: vfork.Files[0], Max: vfork.Files[1]}
	if was.Cur+1 >= was.Max { // it had nothing to raise, or was not known
		return nil
	}
	var is unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &is); err != nil || is.Max != was.Max || is.Cur != was.Max-1 {
		return nil
	}
	return &was
}

// fork makes the child, which never returns. The child uses the parent's stack
// from this function on, so the parent returns at once, and nothing of this frame
// is used by it afterwards. Nothing is called in the child but what needs no more
// stack, no memory and no other thread.
//
//go:noinline
//go:norace
//go:nocheckptr
func fork(p *plan) (pid, errno uintptr) {
	var (
		e syscall.Errno
		i int
	)
	beforeFork()
	pid, errno = vfork.Call(p.clone, p.args[0], p.args[1], 0)
	if pid != 0 || errno != 0 {
		return pid, errno
	}

	p.step = stepSession
	if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
		goto failed
	}
	afterForkInChild()

	if p.dir != nil {
		p.step = stepDir
		if _, _, e = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(p.dir)), 0, 0); e != 0 {
			goto failed
		}
	}
	p.step = stepFiles
	for i = range p.files {
		if p.files[i] <= 2 { // out of the way of the others
			if p.files[i], _, e = syscall.RawSyscall(unix.SYS_FCNTL, p.files[i], unix.F_DUPFD_CLOEXEC, 3); e != 0 {
				goto failed
			}
		}
	}
	for i = range p.files {
		if _, _, e = syscall.RawSyscall(unix.SYS_DUP3, p.files[i], uintptr(i), 0); e != 0 {
			goto failed
		}
	}
	if p.terminal {
		p.step = stepTerminal
		if _, _, e = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); e != 0 {
			goto failed
		}
	}
	p.step = stepLimit
	if p.restoreTo != nil {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(p.restoreTo)), 0, 0, 0)
	}
	if p.limit != nil {
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, uintptr(unsafe.Pointer(p.limit)), 0, 0, 0); e != 0 {
			goto failed
		}
	}
	if p.trace {
		p.step = stepTrace
		if _, _, e = syscall.RawSyscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0); e != 0 {
			goto failed
		}
	}
	if p.confine {
		p.step = stepPrivileges
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
			goto failed
		}
		p.step = stepRuleset
		if _, _, e = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, p.ruleset, 0, 0); e != 0 {
			goto failed
		}
	}
	p.step = stepExecute
	_, _, e = syscall.RawSyscall6(unix.SYS_EXECVE, uintptr(unsafe.Pointer(p.file)), uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.envv[0])), p.secret, 0, 0)

failed:
	p.errno = e
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT, 253, 0, 0)
	}
}
