package landlock

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are the numbers of the system calls that the filter knows, of one
// architecture.
type calls struct {
	arch                                       uint32
	execve, execveat, memfdCreate, personality uint32
	mmap                                       []uint32 // with the protection and the flags in arguments 2 and 3
	mmapAny                                    []uint32 // with them in memory
	x32                                        bool
}

// Offsets in struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func argument(n uint32) unix.SockFilter { return load(offsetArgs + 8*n) } // its low half: both are little-endian

func jump(code uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | code, K: k, Jt: yes, Jf: no}
}

func answer(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

var (
	allow = answer(unix.SECCOMP_RET_ALLOW)
	ask   = answer(unix.SECCOMP_RET_USER_NOTIF)
)

func refuse(err unix.Errno) unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | uint32(err)) }

// when is what happens if what was loaded is k; it ends with an answer.
func when(k uint32, body ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{jump(unix.BPF_JEQ, k, 0, uint8(len(body)))}, body...)
}

// readImpliesExec is the personality in which everything that is read can be
// executed, mapped as code or not.
const readImpliesExec = 0x0400000

// mapping asks before a file is mapped as code.
var mapping = []unix.SockFilter{
	argument(2), jump(unix.BPF_JSET, unix.PROT_EXEC, 0, 3),
	argument(3), jump(unix.BPF_JSET, unix.MAP_ANONYMOUS, 1, 0),
	ask, allow,
}

// filter is the program for processes in a domain. An execve whose fourth argument,
// which means nothing to the kernel, is the secret is not asked about: it is that of
// the first program, while this program waits for it and could not answer.
func filter(secret uint64) []unix.SockFilter {
	program := []unix.SockFilter{load(offsetArch)}
	for _, c := range architectures {
		body := slices.Concat(
			[]unix.SockFilter{load(offsetNumber)},
			when(c.execve,
				argument(3), jump(unix.BPF_JEQ, uint32(secret), 0, 3),
				load(offsetArgs+8*3+4), jump(unix.BPF_JEQ, uint32(secret>>32), 0, 1),
				allow, ask),
			when(c.execveat, ask),
			// Landlock is not asked about a file in memory that has no name.
			when(c.memfdCreate, argument(1), jump(unix.BPF_JSET, unix.MFD_NOEXEC_SEAL, 1, 0), refuse(unix.EACCES), allow),
			when(c.personality,
				argument(0), jump(unix.BPF_JEQ, 0xffffffff, 2, 0),
				jump(unix.BPF_JSET, readImpliesExec, 0, 1), refuse(unix.EPERM), allow),
		)
		for _, n := range c.mmap {
			body = append(body, when(n, mapping...)...)
		}
		for _, n := range c.mmapAny {
			body = append(body, when(n, ask)...)
		}
		if c.x32 {
			body = append(body, jump(unix.BPF_JGE, 0x40000000, 0, 1), refuse(unix.ENOSYS))
		}
		program = append(program, when(c.arch, append(body, allow)...)...)
	}
	return append(program, refuse(unix.ENOSYS))
}

// errNoFilter is why loaders are not watched on some architectures.
var errNoFilter = errors.New("the system calls of this processor are not known")

// install puts a filter in force for this thread and what it makes. It returns the
// descriptor on which the kernel asks.
func install(program []unix.SockFilter) (listener int, err error) {
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// With the first flag a signal does not have a call be asked about again.
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER} {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&f)))
		switch errno {
		case 0:
			// Linux 6.6 has it; without it all is the same but slower.
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, setFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
			return int(fd), nil
		case unix.EINVAL:
			continue
		case unix.EBUSY:
			return -1, errors.New("the program that started this one has the kernel ask it already, and it asks only one")
		}
		return -1, fmt.Errorf("cannot install a seccomp filter: %w", errno)
	}
	return -1, errors.New("the kernel cannot ask about system calls (Linux 5.0 can)")
}

// setFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS, by which who asks runs on when it
// is answered, on the processor of who answers.
const setFlags = 0x40082104
