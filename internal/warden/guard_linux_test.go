package warden

import (
	"os"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// asMeddler is set where this program is a command that meddles with its warden.
const asMeddler = "CORRAL_TEST_AS_MEDDLER"

// ioprioProcess and ioprioIdle are of ioprio_set(2).
const ioprioProcess, ioprioIdle = 1, 3 << 13

// schedAttr is struct sched_attr of sched_setattr(2).
type schedAttr struct {
	size, policy              uint32
	flags                     uint64
	nice                      int32
	priority                  uint32
	runtime, deadline, period uint64
}

// meddlings are tries to set something of a process, which work with one's own
// user's.
var meddlings = []struct {
	name string
	try  func(pid int) error
}{
	{"prlimit", func(pid int) error {
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 500, Max: 500}, nil)
	}},
	{"setpriority", func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 5) }},
	{"setpriority of a group", func(pid int) error { return unix.Setpriority(unix.PRIO_PGRP, pid, 6) }},
	{"ioprio_set", func(pid int) error { return call(unix.SYS_IOPRIO_SET, ioprioProcess, uintptr(pid), ioprioIdle) }},
	{"sched_setscheduler", func(pid int) error {
		return call(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_BATCH, uintptr(unsafe.Pointer(new(uint32))))
	}},
	{"sched_setparam", func(pid int) error {
		return call(unix.SYS_SCHED_SETPARAM, uintptr(pid), uintptr(unsafe.Pointer(new(uint32))), 0)
	}},
	{"sched_setattr", func(pid int) error {
		attr := schedAttr{policy: unix.SCHED_BATCH, nice: 7}
		attr.size = uint32(unsafe.Sizeof(attr))
		return call(unix.SYS_SCHED_SETATTR, uintptr(pid), uintptr(unsafe.Pointer(&attr)), 0)
	}},
}

// ofUser are tries that concern every process of the user.
var ofUser = []func() error{
	func() error { return unix.Setpriority(unix.PRIO_USER, 0, 8) },
	func() error { return unix.Setpriority(unix.PRIO_USER, os.Getuid(), 8) },
	func() error { return call(unix.SYS_IOPRIO_SET, ioprioUser, uintptr(os.Getuid()), ioprioIdle) },
}

// senders are tries to send a signal to a thread of a process.
var senders = []func(pid, tid int, sig unix.Signal) error{
	func(_, tid int, sig unix.Signal) error { return unix.Kill(tid, sig) },
	func(_, tid int, sig unix.Signal) error { return call(unix.SYS_TKILL, uintptr(tid), uintptr(sig), 0) },
	func(pid, tid int, sig unix.Signal) error { return unix.Tgkill(pid, tid, sig) },
	func(_, tid int, sig unix.Signal) error {
		return call(unix.SYS_RT_SIGQUEUEINFO, uintptr(tid), uintptr(sig), uintptr(unsafe.Pointer(queued(sig))))
	},
	func(pid, tid int, sig unix.Signal) error {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(tid), uintptr(sig), uintptr(unsafe.Pointer(queued(sig))), 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	},
	func(_, _ int, sig unix.Signal) error {
		_, err := unix.FcntlInt(0, fSetSig, int(sig))
		return err
	},
}

// queued is a siginfo_t that a process may send to another.
func queued(sig unix.Signal) *[32]int32 {
	const byQueue = -1 // SI_QUEUE
	return &[32]int32{int32(sig), 0, byQueue}
}

func call(trap, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(trap, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// The exit codes of meddle: what it could not do to itself, what it could do to
// its warden, and what to every process of its user; that it could not ask, and that a thread could not
// have the ordinary scheduling by its number.
const ownFailed, otherWorked, userWorked, askFailed, ordinaryFailed, sent, notSent = 10, 30, 50, 70, 71, 72, 90

// meddle tries them with the warden and each of its threads.
func meddle() int {
	warden := os.Getppid()
	targets := []int{warden}
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(warden) + "/task") // at least the process itself is tried
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			targets = append(targets, tid)
		}
	}
	for i, m := range meddlings {
		for _, pid := range targets {
			if m.try(pid) == nil {
				return otherWorked + i
			}
		}
	}
	for i, send := range senders {
		for _, tid := range targets {
			for _, sig := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP} {
				if send(warden, tid, sig) != unix.EPERM {
					return sent + i
				}
			}
		}
		if send(os.Getpid(), unix.Gettid(), unix.SIGCONT) != nil {
			return notSent + i
		}
	}
	for i, try := range ofUser {
		if try() == nil {
			return userWorked + i
		}
	}
	for i, m := range meddlings {
		if err := m.try(0); err != nil {
			return ownFailed + i
		}
	}
	if unix.Prlimit(warden, unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)) != nil {
		return askFailed
	}
	if call(unix.SYS_SCHED_SETSCHEDULER, uintptr(unix.Gettid()), unix.SCHED_NORMAL, uintptr(unsafe.Pointer(new(uint32)))) != nil {
		return ordinaryFailed
	}
	return 0
}

// What runs under a warden can set its own limits and scheduling, and not the
// warden's, and can neither stop nor kill it.
func TestCommandsSetOnlyTheirOwn(t *testing.T) {
	_, conn, said, _ := startWarden(t)
	send := func(m *wire.Message) {
		t.Helper()
		m.Epoch = "e"
		if err := conn.Send(m); err != nil {
			t.Fatalf("the warden is gone: %v\n%s", err, said)
		}
	}
	send(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version})
	send(&wire.Message{Type: wire.Start, Req: 2, ID: "a", Dir: "/", Args: []string{"/proc/self/exe"}, Env: []string{asMeddler + "=1"}, Timeout: uint64(time.Minute)})
	for {
		m, _, err := conn.Recv()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		switch m.Type {
		case wire.Error:
			t.Fatal(m.Text)
		case wire.Exited:
			switch code := int(m.ExitCode); {
			case code == 0:
			case m.Signal == 0 && code >= notSent:
				t.Errorf("number %d of what sends a signal could not send one to itself", code-notSent)
			case m.Signal == 0 && code >= sent:
				t.Errorf("number %d of what sends a signal was not refused", code-sent)
			case m.Signal != 0 || code >= askFailed:
				t.Errorf("it ended with %d, signal %d", code, m.Signal)
			case code >= userWorked:
				t.Errorf("number %d of what sets something of every process of the user worked", code-userWorked)
			case code >= otherWorked:
				t.Errorf("%s of the warden worked\n%s", meddlings[code-otherWorked].name, said)
			default:
				t.Errorf("%s of the command itself failed", meddlings[code-ownFailed].name)
			}
			return
		}
	}
}
