//go:build amd64 || arm64

package spawn

import (
	"sync"
	"syscall"
	_ "unsafe" // for linkname
)

// What package syscall calls around a fork.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// forks are those that are under way, which share syscall.ForkLock.
var forks struct {
	sync.Mutex
	n int
}

// locked calls a function that forks, which calls beforeFork.
func locked(fork func() (pid, errno uintptr)) (pid int, err error) {
	forks.Lock()
	if forks.n++; forks.n == 1 {
		syscall.ForkLock.Lock()
	}
	forks.Unlock()
	child, errno := fork()
	afterFork()
	forks.Lock()
	if forks.n--; forks.n == 0 {
		syscall.ForkLock.Unlock()
	}
	forks.Unlock()
	if errno != 0 {
		return 0, syscall.Errno(errno)
	}
	return int(child), nil
}

// reap waits for a child that has ended.
func reap(pid int) (ws syscall.WaitStatus, err error) {
	for {
		if _, err = syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR {
			return ws, err
		}
	}
}
