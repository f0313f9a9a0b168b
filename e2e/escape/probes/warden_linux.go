package probes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gVisor does not heed PR_SET_DUMPABLE for all of /proc/PID.
const byUser = "this release of gVisor guards these of PID 1 by its user alone; a sandbox that is its own warden can lie about its own commands and nothing else"

const descendantsOnly = "gVisor lets a process trace its own descendants alone"

// OverStreams is why there is nothing to dial where gVisor opens no sockets.
const OverStreams = "there is no such directory: the warden is spoken to over its standard streams"

var warden = []Probe{
	{ID: "warden/trace", Tries: "traces PID 1", Why: "ptrace(2); prctl(2), PR_SET_DUMPABLE", Weak: OpenInit, GVisor: descendantsOnly, Run: trace},
	{ID: "warden/memory", Tries: "reads the memory of PID 1", Why: "proc(5), /proc/PID/mem", Weak: OpenInit, GVisor: descendantsOnly, Run: initMemory},
	{ID: "warden/environment", Tries: "reads the environment of PID 1", Why: "proc(5), /proc/PID/environ", Weak: OpenInit, Inside: byUser, Run: func(*Env) Verdict {
		_, err := os.ReadFile("/proc/1/environ")
		return call("reading it", err)
	}},
	{ID: "warden/descriptors", Tries: "opens a file that PID 1 has open, such as the gateway's end of a pipe", Why: "proc(5), /proc/PID/fd", Weak: OpenInit, Inside: byUser, Run: initDescriptors},
	{ID: "warden/take", Tries: "takes a descriptor from PID 1", Why: "pidfd_getfd(2)", Weak: OpenInit, GVisor: "gVisor has no pidfd_getfd", Run: takeDescriptor},
	{ID: "warden/stdout", Tries: "writes into what PID 1 says to the gateway", Why: "messages over the container's standard streams", Weak: OpenInit, Inside: byUser, Run: func(*Env) Verdict {
		f, err := os.OpenFile("/proc/1/fd/1", os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		return call("opening it", err)
	}},
	{ID: "warden/exe", Tries: "gets write access to the program that PID 1 runs", Why: "CVE-2019-5736, through /proc/self/exe of runc", Weak: OpenInit, GVisor: descendantsOnly, Run: func(*Env) Verdict {
		return call("access", unix.Faccessat(unix.AT_FDCWD, "/proc/1/exe", unix.W_OK, 0))
	}},
	{ID: "warden/dial", Tries: "dials the gateway in the warden's place", Why: "unix(7), SO_PEERCRED", Weak: OpenServer, GVisor: OverStreams, Run: dialGateway},
	{ID: "warden/listen", Tries: "makes a socket at which the warden would take it for a gateway", Why: "the directory with the sockets is mounted read-only", Weak: OurWrites, GVisor: OverStreams, Run: plant},
	{ID: "warden/limits", Tries: "sets a limit of PID 1, or of one of its threads, which is the same", Why: "prlimit(2): with no files to open the next command is lost", Weak: OpenInit, Run: func(*Env) Verdict {
		var own unix.Rlimit
		if err := unix.Prlimit(1, unix.RLIMIT_NOFILE, nil, &own); err != nil {
			return held("asking for it: %v", err)
		}
		return ofInit("prlimit", func(pid int) error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &own, nil) })
	}},
	{ID: "warden/priority", Tries: "gives PID 1 a low priority, alone or with everything of its user", Why: "setpriority(2): a warden that gets no time is late with every time-out", Weak: OpenInit, Run: func(*Env) Verdict {
		if err := unix.Setpriority(unix.PRIO_USER, 0, 1); err == nil {
			return escaped("setpriority of all of a user works")
		}
		return ofInit("setpriority", func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 1) })
	}},
	{ID: "warden/scheduling", Tries: "makes PID 1 run only where nothing else wants to", Why: "sched_setscheduler(2)", Weak: OpenInit, GVisor: "gVisor has one policy, and lets no other be set", Run: func(*Env) Verdict {
		return ofInit("sched_setscheduler", func(pid int) error {
			return systemCall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_IDLE, uintptr(unsafe.Pointer(new(uint32))))
		})
	}},
	{ID: "warden/input-output", Tries: "makes PID 1 read and write only where nothing else does", Why: "ioprio_set(2)", Weak: OpenInit, GVisor: "gVisor lets nobody set a priority of input and output", Run: func(*Env) Verdict {
		const process, idle = 1, 3 << 13
		return ofInit("ioprio_set", func(pid int) error { return systemCall(unix.SYS_IOPRIO_SET, process, uintptr(pid), idle) })
	}},
	{ID: Killer, Tries: "ends or stops PID 1, or one of its threads, which is the same", Why: "kill(2): with PID 1 the sandbox's other commands end, and without it no command ends in time", Weak: OpenInit, Run: killInit},
}

// SocketDir is where the warden finds the gateway, in the sandbox.
const SocketDir = "/.corral/run"

func trace(*Env) Verdict {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := unix.PtraceSeize(1)
	if err == nil {
		_ = unix.PtraceDetach(1) // this process ends anyway
	}
	return call("ptrace", err)
}

// ofInit tries what one process can do to another with PID 1 and its threads.
func ofInit(what string, try func(pid int) error) Verdict {
	return anyOf(what, initThreads(), try)
}

// initThreads are the numbers of PID 1 and its threads.
func initThreads() []int {
	targets := []int{1}
	threads, _ := os.ReadDir("/proc/1/task") // where it cannot be read there is PID 1 itself
	for _, thread := range threads {
		if tid, err := strconv.Atoi(thread.Name()); err == nil {
			targets = append(targets, tid)
		}
	}
	return targets
}

func systemCall(trap, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(trap, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

func initMemory(*Env) Verdict {
	maps, err := os.ReadFile("/proc/1/maps")
	if err != nil {
		return held("%v", err)
	}
	mem, err := os.Open("/proc/1/mem")
	if err != nil {
		return held("%v", err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x rw", &from, &to); err != nil {
			continue
		}
		if _, err := mem.ReadAt(make([]byte, 16), from); err == nil {
			return escaped("it was read at %#x", from)
		}
	}
	return held("there is nothing that can be read")
}

func initDescriptors(*Env) Verdict {
	dir := "/proc/1/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		return held("%v", err)
	}
	return anyOf("opening one", names, func(d os.DirEntry) error {
		fd, err := unix.Open(filepath.Join(dir, d.Name()), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
}

func takeDescriptor(*Env) Verdict {
	pidfd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return held("pidfd_open: %v", err)
	}
	defer unix.Close(pidfd)
	return tryFD("pidfd_getfd", func() (int, error) { return unix.PidfdGetfd(pidfd, 1, 0) })
}

// dialing is how long it tries to be faster than the warden.
const dialing = 3 * time.Second

// DialTries is the file in the workspace that says that dialGateway has begun.
const DialTries = "dialing"

func dialGateway(e *Env) Verdict {
	if e.Workspace != "" {
		if err := os.WriteFile(filepath.Join(e.Workspace, DialTries), nil, 0o600); err != nil {
			return lacking("%v", err)
		}
	}
	dialled, last := 0, error(nil)
	for end := time.Now().Add(dialing); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		sockets, err := filepath.Glob(SocketDir + "/*.sock")
		if err != nil {
			return lacking("%v", err)
		}
		for _, s := range sockets {
			if last = dialOne(s); last == nil {
				return escaped("a gateway answered at %s", s)
			}
			dialled++
		}
	}
	if last == nil {
		last = errors.New("there was no gateway to dial")
	}
	return held("dialled %d times; %v", dialled, last)
}

// dialOne waits for what a gateway says to its warden first.
func dialOne(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	b := make([]byte, 64<<10)
	n, err := unix.Read(fd, b)
	if err == nil && n == 0 {
		err = errors.New("it hangs up")
	}
	return err
}

func plant(*Env) Verdict {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return held("socket: %v", err)
	}
	defer unix.Close(fd)
	const path = SocketDir + "/gw-escape"
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if err == nil {
		err = os.Remove(path)
	}
	return call("bind", err)
}

func killInit(*Env) Verdict {
	const last = 64
	for _, pid := range initThreads() {
		for s := last; s > 0; s-- {
			_ = unix.Kill(pid, unix.Signal(s)) // whether it may or not: what counts is what comes of it
		}
	}
	time.Sleep(3 * time.Second) // a busy machine takes a while to end what it may
	return held("it lives, and so does this process")
}
