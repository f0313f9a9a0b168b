package spawn

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ended waits until a child has ended, and leaves it to be reaped: its number is no
// other's until then. which, id and options are those of waitid(2).
func Ended(which, id, options int) (pid int, err error) {
	// As siginfo_t begins, after which comes a union: si_pid is its first.
	var info struct {
		signo, errno, code int32
		union              [29]int32
	}
	const pidAt = (int(unsafe.Sizeof(uintptr(0))) - 4) / 4 // the union is aligned as a pointer
	err = unix.Waitid(which, id, (*unix.Siginfo)(unsafe.Pointer(&info)), options|unix.WEXITED|unix.WNOWAIT, nil)
	return int(info.union[pidAt]), err
}
