package landlock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A handoff has one thread make the calls of others. Both sides wait in the kernel.
// A channel takes 15 µs more, since one goroutine is bound to its thread.
type handoff struct {
	mu    sync.Mutex
	ended bool
	next  atomic.Pointer[func()] // nil: it is the end

	asked, made int // eventfds
}

func (h *handoff) open() (err error) {
	if h.asked, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
		if h.made, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
			unix.Close(h.asked)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot make an eventfd: %w", err)
	}
	return nil
}

func (h *handoff) close() {
	unix.Close(h.asked)
	unix.Close(h.made)
}

// make makes the calls until the end.
func (h *handoff) make() {
	for {
		wait(h.asked)
		f := h.next.Load()
		if f == nil {
			return
		}
		(*f)()
		h.next.Store(nil)
		wake(h.made)
	}
}

// call returns when f has been called.
func (h *handoff) call(f func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return errEnded
	}
	h.next.Store(&f)
	wake(h.asked)
	wait(h.made)
	h.next.Load() // what f wrote can be read from here on
	return nil
}

func (h *handoff) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	wake(h.asked)
}

// wait waits for an eventfd, which can be read from.
func wait(fd int) {
	var b [8]byte
	for {
		if _, err := unix.Read(fd, b[:]); err != unix.EINTR {
			return
		}
	}
}

// wake does not tell the scheduler, as what takes no time need not.
func wake(fd int) {
	one := uint64(1)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}
