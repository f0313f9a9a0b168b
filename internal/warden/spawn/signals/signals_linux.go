//go:build amd64 || arm64

// Package signals gives signals actions that the Go runtime knows nothing of. The
// runtime has a handler for nearly every signal, which must not run in a process that
// has been made and shares this one's memory until it executes its program: so it
// resets each by a system call, while this process waits.
package signals

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const last = syscall.Signal(64)

// action is the kernel's struct sigaction.
type action struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// set cannot fail for a signal that exists and can be caught.
func (a *action) set(sig syscall.Signal) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(a)), 0, unsafe.Sizeof(a.mask), 0, 0)
}

// Default gives signals their default action. With that, unlike with SIGCHLD ignored,
// children still wait to be reaped.
func Default(sigs ...syscall.Signal) {
	for _, sig := range sigs {
		signal.Ignore(sig) // the runtime lets go of it
		new(action).set(sig)
	}
}

// RealTime are the real-time signals that no library takes for itself.
func RealTime() (sigs []syscall.Signal) {
	const first = syscall.Signal(34)
	for sig := first; sig <= last; sig++ {
		sigs = append(sigs, sig)
	}
	return sigs
}

// RestoreIgnored gives signals their default action that this program was started to
// ignore, as by nohup: what it executes would inherit that.
func RestoreIgnored() {
	const ignored = 1 // SIG_IGN
	for sig := syscall.Signal(1); sig <= last; sig++ {
		var a action
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a.mask), 0, 0)
		if errno == 0 && a.handler == ignored {
			new(action).set(sig)
		}
	}
}

// Deafen makes this process, and it alone, deaf to what others send it: nothing
// comes of such a signal. They are not ignored, since an ignored signal stays ignored
// in what is executed.
//
// For a few the runtime keeps its handler: what the processor raises is to end this
// program, and tell where.
func Deafen() {
	self = uint64(os.Getpid())
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS)
	go func() {
		for range c { //nolint:revive // deaf
		}
	}()
	const onStack, restart, restorer = 0x08000000, 0x10000000, 0x04000000 // SA_ONSTACK, SA_RESTART, SA_RESTORER
	// All are blocked while one is handled: the stack that is there for it holds a few.
	deaf := action{flags: onStack | restart, mask: 1<<64 - 1}
	deaf.handler, deaf.restorer = handlers()
	if deaf.restorer != 0 {
		deaf.flags |= restorer
	}
	const cancel = syscall.Signal(32) // C libraries cancel threads by it; this program has no C library
	for _, sig := range append(RealTime(), cancel,
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGXCPU,
		syscall.SIGXFSZ, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGWINCH, syscall.SIGIO, syscall.SIGPWR,
	) {
		signal.Ignore(sig) // the runtime lets go of it
		deaf.set(sig)
	}
}

// self is the process that is deaf. The handler runs in one that it makes as well,
// until that has executed its program: there the default action is taken.
//
//lint:ignore U1000 the handler reads it
var self uint64

// handlers are the addresses of the handler and of what it returns to; 0: the kernel
// has its own.
func handlers() (handler, restorer uintptr)

//lint:ignore U1000 it is not called by Go
func handle()

//lint:ignore U1000 it is not called by Go
func restore()
