//go:build amd64 || arm64

// Package vfork has the two things of package spawn that come before package
// syscall: a system call that may return twice on one stack, and the limit of open
// files that this program was started with, which syscall raises when it is
// initialized. Packages are initialized in the order of their paths, unless they
// import another; this one imports none.
package vfork

import "unsafe"

// Call makes a system call without telling the scheduler. After a clone that
// shares memory the child returns first, on the caller's stack, and must not
// return from the caller; the parent returns when the child has executed a program
// or ended.
func Call(trap, a1, a2, a3 uintptr) (result, errno uintptr)

// Files is RLIMIT_NOFILE, the soft and the hard limit, as this program was started
// with; zero if it is not known.
var Files = files()

var limits [2]uint64 // not on the stack: a system call fills it

func files() [2]uint64 {
	const nofile = 7
	if _, errno := Call(getrlimit, nofile, uintptr(unsafe.Pointer(&limits)), 0); errno != 0 {
		return [2]uint64{}
	}
	return limits
}
