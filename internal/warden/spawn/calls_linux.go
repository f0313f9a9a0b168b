//go:build amd64 || arm64

package spawn

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/spawn/vfork"
)

// A Call is a system call. What its arguments point to is the caller's to keep, and
// is on no stack.
type Call struct {
	Number uintptr
	Args   [6]uintptr
}

// Calls makes system calls in a process of its own, with one thread, and returns
// when that has ended. The error is that of the first call that fails; those after
// it are not made.
func Calls(list ...Call) error {
	c := &calls{list: list}
	pid, err := locked(func() (uintptr, uintptr) { return forkForCalls(c) })
	runtime.KeepAlive(c)
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	ws, err := reap(pid)
	switch {
	case err != nil:
		return err
	case c.errno != 0:
		return c.errno
	case ws != 0:
		return fmt.Errorf("the process was ended by %v", ws.Signal())
	}
	return nil
}

type calls struct {
	list  []Call
	errno syscall.Errno // of the child, which shares it
}

// forkForCalls is fork for a child that executes nothing.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkForCalls(c *calls) (pid, errno uintptr) {
	var a *Call
	var i int
	beforeFork()
	pid, errno = vfork.Call(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0)
	if pid != 0 || errno != 0 {
		return pid, errno
	}
	afterForkInChild()
	for i = range c.list {
		a = &c.list[i]
		if _, _, c.errno = syscall.RawSyscall6(a.Number, a.Args[0], a.Args[1], a.Args[2], a.Args[3], a.Args[4], a.Args[5]); c.errno != 0 {
			break
		}
	}
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
}
