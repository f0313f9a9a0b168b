package probes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const ownKernel = "the host's processes are not processes of gVisor's kernel, whatever the namespace"

var namespaces = []Probe{
	{ID: "ns/signal", Tries: "signals a process of the host that has its user", Why: "pid_namespaces(7), kill(2)", Weak: HostPID, GVisor: ownKernel, Run: func(e *Env) Verdict {
		if e.PID == 0 {
			return absent("a process of the host")
		}
		return onHost(e, "kill", func() error { return unix.Kill(e.PID, unix.SIGUSR1) })
	}},
	{ID: "ns/environment", Tries: "reads the environment of a process of the host that has its user", Why: "proc(5), /proc/PID/environ", Weak: HostPID, GVisor: ownKernel, Run: hostEnvironment},
	{ID: "ns/root", Tries: "reads a file of the host through /proc/PID/root of a process of the host", Why: "proc(5), /proc/PID/root", Weak: HostPID, GVisor: ownKernel, Run: func(e *Env) Verdict {
		if e.PID == 0 || e.File == "" {
			return absent("a process of the host")
		}
		return call("reading it", e.reads(fmt.Sprintf("/proc/%d/root%s", e.PID, e.File)))
	}},
	{ID: "ns/enter", Tries: "enters the mount namespace of a process of the host, and reads a file there", Why: "setns(2), nsenter", Weak: HostPIDAll, GVisor: ownKernel, Run: enter},
	{ID: "ns/user", Tries: "makes a user namespace, in which it would have all capabilities", Why: "unshare(2): what most holes of the kernel since 2016 need", Weak: Seccomp, Inside: namespaceInside, Run: func(*Env) Verdict {
		return inChild("unshare(CLONE_NEWUSER)", &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER})
	}},
	{ID: "ns/clone-user", Tries: "makes a user namespace by clone", Why: "clone(2)", Weak: Seccomp, Inside: namespaceInside, Run: func(*Env) Verdict {
		return inChild("clone(CLONE_NEWUSER)", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER})
	}},
	{ID: "ns/clone3-user", Tries: "makes a user namespace by clone3, whose flags a filter does not see", Why: "clone3(2), seccomp(2)", Weak: Seccomp, GVisor: "this release of gVisor has no clone3", Run: clone3},
	{ID: "ns/others", Tries: "makes a mount, network, PID, IPC, UTS or cgroup namespace", Why: "unshare(2)", Weak: Caps, Inside: namespaceInside, Run: unshareOthers},
	{ID: "ns/shared-memory", Tries: "reads System V shared memory of the host", Why: "ipc_namespaces(7)", Weak: HostIPC, GVisor: "System V shared memory is in gVisor's kernel", Run: sharedMemory},
	{ID: "ns/message-queue", Tries: "opens a POSIX message queue of the host", Why: "mq_overview(7)", Weak: HostIPC, GVisor: "message queues are in gVisor's kernel", Run: messageQueue},
	{ID: "ns/shm-file", Tries: "reads a file in the host's /dev/shm", Why: "shm_overview(7)", Weak: HostIPC, Run: func(e *Env) Verdict {
		if e.ShmFile == "" {
			return absent("a file")
		}
		return call("reading it", e.reads(e.ShmFile))
	}},
}

// onHost judges a call on the process of the host; another process may have its
// number here.
func onHost(e *Env, what string, try func() error) Verdict {
	if err := e.hostProcess(); err != nil {
		return held("process %d: %v", e.PID, err)
	}
	return call(what, try())
}

// hostProcess tells whether the process with the number is that of the host.
func (e *Env) hostProcess() error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", e.PID))
	if err != nil {
		return err
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if _, v, ok := bytes.Cut(kv, []byte("=")); ok && e.Is(v) {
			return nil
		}
	}
	return errors.New("it is one of the container")
}

func hostEnvironment(e *Env) Verdict {
	if e.PID == 0 {
		return absent("a process of the host")
	}
	return call("reading it", e.hostProcess())
}

func enter(e *Env) Verdict {
	if e.PID == 0 || e.File == "" {
		return absent("a process of the host")
	}
	if err := e.hostProcess(); err != nil {
		return held("process %d: %v", e.PID, err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", e.PID), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return held("%v", err)
	}
	defer unix.Close(fd)
	runtime.LockOSThread()                              // for good: the thread is not to be used again
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // which threads share
		return held("unshare: %v", err)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS); err != nil {
		return held("setns: %v", err)
	}
	return call("reading it there", e.reads(e.File))
}

// inChild starts a program in other namespaces.
func inChild(what string, attr *syscall.SysProcAttr) Verdict {
	cmd := self("whoami")
	cmd.SysProcAttr = attr
	return call(what, cmd.Run())
}

func clone3(*Env) Verdict {
	args := struct {
		flags                                                         uint64
		pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	}{flags: unix.CLONE_NEWUSER, exitSignal: uint64(unix.SIGCHLD)}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A fork without exec: the child does nothing but end.
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno == 0 && pid == 0 {
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	if errno == 0 {
		_, _ = unix.Wait4(int(pid), nil, 0, nil) // it ends at once
	}
	return call("clone3(CLONE_NEWUSER)", errnoErr(errno))
}

func unshareOthers(*Env) Verdict {
	flags := map[string]int{"mount": unix.CLONE_NEWNS, "network": unix.CLONE_NEWNET, "PID": unix.CLONE_NEWPID, "IPC": unix.CLONE_NEWIPC, "UTS": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP}
	var last error
	for name, flag := range flags {
		cmd := self("whoami")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: uintptr(flag)}
		if last = cmd.Run(); last == nil {
			return escaped("unshare of the %s namespace works", name)
		}
	}
	return held("unshare: %v", last)
}

func sharedMemory(e *Env) Verdict {
	if e.Shm == 0 {
		return absent("shared memory")
	}
	id, err := unix.SysvShmGet(e.Shm, 0, 0)
	if err != nil {
		return held("shmget: %v", err)
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return held("shmat: %v", err)
	}
	defer func() { _ = unix.SysvShmDetach(b) }() // the process ends anyway
	if !e.Is(b[:min(e.Length, len(b))]) {
		return held("it holds something else")
	}
	return escaped("the host's memory was read")
}

func messageQueue(e *Env) Verdict {
	if e.Queue == "" {
		return absent("a message queue")
	}
	return tryFD("mq_open", func() (int, error) { return openQueue(e.Queue, unix.O_RDONLY|unix.O_NONBLOCK, 0) })
}

// openQueue is mq_open; the name has no leading slash, as the system call wants.
func openQueue(name string, flags, mode int) (int, error) {
	b, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(b)), uintptr(flags|unix.O_CLOEXEC), uintptr(mode), 0, 0, 0)
	return int(fd), errnoErr(errno)
}
