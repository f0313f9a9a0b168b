package probes

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var memory = []Probe{
	{ID: "mem/process", Tries: "reads the memory of a process of the host that has its user", Why: "process_vm_readv(2)", Weak: HostPIDAll, GVisor: ownKernel, Run: hostMemory},
	{ID: "mem/descriptors", Tries: "finds a descriptor that it should not have inherited", Why: "CVE-2024-21626, CVE-2016-9962", Weak: Leak, Run: inherited},
	{ID: "mem/pagemap", Tries: "learns where in the machine's memory it is", Why: "/proc/PID/pagemap; Rowhammer", Weak: Caps, GVisor: "gVisor has no pagemap", Run: pagemap},
	{ID: "mem/userfaultfd", Tries: "opens a userfaultfd, which holds the kernel still at a moment of its choice", Why: "userfaultfd(2); CVE-2016-6516, CVE-2021-22555", Weak: Seccomp, GVisor: "gVisor has no userfaultfd", Run: func(*Env) Verdict {
		const userModeOnly = 1 // what all users may
		return tryFD("userfaultfd", func() (int, error) {
			fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
			return int(fd), errnoErr(errno)
		})
	}},
	{ID: "mem/core-dump", Tries: "crashes with a core dump, which the host's handler gets", Why: "core(5); CVE-2022-28655 and others of apport and abrt", Weak: Cores, GVisor: "gVisor makes no core dumps", Run: coreDump},
	{ID: "mem/environment", Tries: "finds a secret of the gateway's environment in its own", Why: "environ(7)", Weak: Variable, Run: func(e *Env) Verdict {
		for _, kv := range os.Environ() {
			if name, value, _ := strings.Cut(kv, "="); e.Is([]byte(value)) {
				return escaped("%s is there", name)
			}
		}
		return held("none of %d variables has it", len(os.Environ()))
	}},
}

func hostMemory(e *Env) Verdict {
	if e.PID == 0 {
		return absent("a process of the host")
	}
	b := make([]byte, e.Length)
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	remote := []unix.RemoteIovec{{Base: uintptr(e.Memory), Len: len(b)}}
	_, err := unix.ProcessVMReadv(e.PID, local, remote, 0)
	switch {
	case err != nil:
		return held("process_vm_readv: %v", err)
	case !e.Is(b):
		return held("it holds something else")
	}
	return escaped("the secret was read")
}

// inherited looks at what this program had when it began (see Main).
func inherited(e *Env) Verdict {
	var open []string
	for _, fd := range atStart {
		to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil {
			continue
		}
		open = append(open, to)
		if e.File != "" && e.reads("/proc/self/fd/"+strconv.Itoa(fd)+"/"+e.File) == nil {
			return escaped("a directory of the host is open, and a file of the host was read through it")
		}
	}
	if len(open) > 0 {
		return escaped("there is %s", strings.Join(open, ", "))
	}
	return held("there are only its standard streams")
}

func pagemap(*Env) Verdict {
	page := make([]byte, os.Getpagesize())
	page[0] = 1
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return held("%v", err)
	}
	defer f.Close()
	entry := make([]byte, 8)
	if _, err := f.ReadAt(entry, int64(uintptr(unsafe.Pointer(&page[0]))/uintptr(os.Getpagesize())*8)); err != nil {
		return held("%v", err)
	}
	const frame = 1<<55 - 1
	if binary.NativeEndian.Uint64(entry)&frame == 0 {
		return held("the kernel does not tell")
	}
	return escaped("the kernel tells the page's frame")
}

func coreDump(e *Env) Verdict {
	cmd := exec.Command("/bin/sh", "-c", "ulimit -S -c $(ulimit -H -c); kill -SEGV $$")
	cmd.Dir = e.Dir
	err := cmd.Run()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return held("it does not crash: %v", err)
	}
	if cores, _ := filepath.Glob(e.Dir + "/core*"); status.CoreDump() || len(cores) > 0 { // the pattern is a good one
		return escaped("the kernel made one")
	}
	return held("the kernel made none")
}
