//go:build linux

package warden

import (
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel lets a process set the limits, the priority and the scheduling of
// every other of its user, so that a command could do so to PID 1: with no file
// to open PID 1 would lose the next start, and at the lowest priority it would be late
// with every deadline. A thread of PID 1 is as good as PID 1 itself, and which
// numbers its threads have no filter knows. So a command may set these of the
// caller alone, which every such call names by 0; to ask is allowed.
//
// The ordinary scheduling is the exception: it takes nothing from a process, and
// libraries set it for a new thread by the thread's number (ZeroMQ ends the program
// if it cannot).
//
// Nor may a command send PID 1 a signal that no process can catch. Linux keeps such a
// signal away from PID 1; gVisor does not, and a warden that is stopped ends no command
// in time. Others do nothing to it (see package signals).
//
// The warden filters itself, and what it makes inherits that, rather than
// have the engine do it: so it holds on every engine, with a profile of the
// operator's, and on gVisor, which heeds no engine's profile.

// calls are the numbers of the calls that are guarded, on one architecture.
type calls struct {
	arch                                    uint32 // of audit(7)
	prlimit, setpriority, ioprio            uint32
	setscheduler, setparam, setattr, ignore uint32 // ignore: bits of a number that do not matter

	kill, tkill, tgkill, queue, tgqueue, fcntl uint32
}

// The values of the argument "which" that mean every process of a user, in
// setpriority(2) and ioprio_set(2).
const prioUser, ioprioUser = 2, 3

// fSetSig is F_SETSIG of fcntl(2).
const fSetSig = 10

// Where the kernel puts what a filter sees: struct seccomp_data.
const (
	atNumber, atArch = 0, 4
	atArgs           = 16 // 8 bytes each, the lower half first
)

// guard makes this process, and everything that it makes, unable to set the
// limits and the scheduling of any other, and to stop or kill this one.
func guard() error {
	filter := guardFilter(guarded, uint32(os.Getpid()), lastThread())
	if len(filter) == 0 {
		return nil // an architecture that is none of ours
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Without the second flag the kernel makes every process that has a filter
	// slow before Linux 5.16. GVisor does not know it.
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, unix.SECCOMP_FILTER_FLAG_TSYNC} {
		thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		switch {
		case errno == 0 && thread == 0:
			return nil
		case errno == unix.EINVAL:
		case errno != 0:
			return fmt.Errorf("cannot keep commands from setting the limits of others: %w", errno)
		default:
			return fmt.Errorf("cannot keep commands from setting the limits of others: thread %d has a filter of its own", thread)
		}
	}
	return fmt.Errorf("cannot keep commands from setting the limits of others: %w", unix.EINVAL)
}

// lastThread is the highest number that a thread of this process has. All that it needs
// are there (see reserveThreads), and numbers are given in turn: those from its own up
// to this one are no command's.
func lastThread() uint32 {
	last := os.Getpid()
	threads, _ := os.ReadDir("/proc/self/task") // the first is the process itself
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			last = max(last, tid)
		}
	}
	return uint32(last)
}

// guardFilter is the program of the filter, of a process and threads whose numbers are
// from first to last. Whatever belongs to another
// architecture, or to another call, is jumped over; what is not ends the program.
func guardFilter(archs []calls, first, last uint32) (f []unix.SockFilter) {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	arg := func(n uint32) uint32 { return atArgs + 8*n }
	// jump compares what was loaded with k, and jumps over a number of instructions.
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, Jt: yes, Jf: no, K: k}
	}
	unless := func(k uint32, over int) unix.SockFilter { return jump(unix.BPF_JEQ, k, 0, uint8(over)) }
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	allow, refuse := ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))

	// A number of a process has 32 bits.
	ownOnly := func(n uint32) []unix.SockFilter { return []unix.SockFilter{load(arg(n)), unless(0, 1), allow, refuse} }
	notAll := func(all uint32) []unix.SockFilter {
		return append([]unix.SockFilter{load(arg(0)), unless(all, 1), refuse}, ownOnly(1)...)
	}
	limit := append([]unix.SockFilter{
		load(arg(2)), unless(0, 3), load(arg(2) + 4), unless(0, 1), allow, // without a new limit it asks
	}, ownOnly(0)...)
	// signal looks at the signal, which is argument n, and then at whom it is for.
	signal := func(n uint32) []unix.SockFilter {
		return []unix.SockFilter{
			load(arg(n)), jump(unix.BPF_JEQ, uint32(unix.SIGKILL), 1, 0), unless(uint32(unix.SIGSTOP), 3),
			load(arg(0)), jump(unix.BPF_JGE, first, 0, 1), jump(unix.BPF_JGT, last, 0, 1), allow, refuse,
		}
	}
	// The kernel sends this one for input on a file, to whom F_SETOWN says.
	setsig := []unix.SockFilter{
		load(arg(1)), unless(fSetSig, 3),
		load(arg(2)), jump(unix.BPF_JEQ, uint32(unix.SIGKILL), 2, 0), jump(unix.BPF_JEQ, uint32(unix.SIGSTOP), 1, 0), allow, refuse,
	}
	scheduler := append([]unix.SockFilter{load(arg(1)), unless(unix.SCHED_NORMAL, 1), allow}, ownOnly(0)...)

	for _, c := range archs {
		part := []unix.SockFilter{load(atNumber), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^c.ignore}}
		for _, call := range []struct {
			number uint32
			body   []unix.SockFilter
		}{
			{c.prlimit, limit},
			{c.setpriority, notAll(prioUser)}, {c.ioprio, notAll(ioprioUser)},
			{c.setscheduler, scheduler}, {c.setparam, ownOnly(0)}, {c.setattr, ownOnly(0)},
			{c.kill, signal(1)}, {c.tkill, signal(1)}, {c.tgkill, signal(2)}, {c.queue, signal(1)}, {c.tgqueue, signal(2)},
			{c.fcntl, setsig},
		} {
			part = append(append(part, unless(call.number, len(call.body))), call.body...)
		}
		part = append(part, allow)
		f = append(append(f, load(atArch), unless(c.arch, len(part))), part...)
	}
	if len(f) > 0 {
		f = append(f, refuse) // there are no other architectures
	}
	return f
}
