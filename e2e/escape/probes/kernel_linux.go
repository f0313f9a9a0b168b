package probes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const ownProc = "gVisor's /proc and /sys are of its own making"

var kernel = []Probe{
	{ID: "kernel/core-pattern", Tries: "writes /proc/sys/kernel/core_pattern, with what is in it", Why: "core(5): a program named there runs as root on the host", Weak: RootPaths, GVisor: ownProc, Run: func(*Env) Verdict {
		return call("writing it", rewrite("/proc/sys/kernel/core_pattern"))
	}},
	{ID: "kernel/sysctl", Tries: "writes settings of the whole machine, with what they are", Why: "proc(5), /proc/sys", Weak: RootPaths, GVisor: ownProc, Run: func(*Env) Verdict {
		return anyOf("writing one", []string{"kernel/panic", "kernel/randomize_va_space", "fs/suid_dumpable", "vm/overcommit_memory", "kernel/pid_max"}, func(name string) error {
			return rewrite("/proc/sys/" + name)
		})
	}},
	{ID: "kernel/irq", Tries: "writes which processors serve interrupts, with what it is", Why: "/proc/irq, read-only in containers", Weak: RootPaths, GVisor: ownProc, Run: func(*Env) Verdict {
		return call("writing it", rewrite("/proc/irq/default_smp_affinity"))
	}},
	{ID: "kernel/sysfs", Tries: "opens a file below /sys for writing", Why: "sysfs(5): uevent_helper and others run programs on the host", Weak: Privileged, Run: sysfs},
	{ID: "kernel/keys", Tries: "lists the host's keys in /proc/keys", Why: "keyrings(7): keys have no namespace", Weak: Paths, GVisor: ownProc, Run: listKeys},
	{ID: "kernel/keyring", Tries: "reads a key of the host's user with the same number", Why: "keyctl(2): keys have no namespace; CVE-2016-0728", Weak: Seccomp, GVisor: "gVisor's keyrings are of its own making", Run: readKey},
	{ID: "kernel/bpf", Tries: "makes a BPF map", Why: "bpf(2); CVE-2017-16995, CVE-2020-8835, CVE-2021-3490", Weak: Caps, GVisor: "gVisor has no bpf", Run: makeMap},
	{ID: "kernel/perf", Tries: "opens a performance counter", Why: "perf_event_open(2); CVE-2013-2094, CVE-2023-5717", Weak: Caps, GVisor: "gVisor has no perf_event_open", Run: openCounter},
}

// maxWalked bounds how much of /sys is looked at.
const maxWalked = 20000

func sysfs(*Env) Verdict {
	seen, found, last := 0, "", error(nil)
	for _, top := range []string{"/sys/kernel", "/sys/power", "/sys/block", "/sys/module", "/sys/devices", "/sys/firmware"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if seen++; found != "" || seen > maxWalked {
				return fs.SkipAll
			}
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what cannot be looked at is no way out
			}
			if info, err := d.Info(); err != nil || info.Mode()&0o222 == 0 {
				return nil //nolint:nilerr // gone meanwhile
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if last = err; err == nil {
				found = path
				return f.Close()
			}
			return nil
		})
		if err != nil {
			last = err
		}
	}
	if found != "" {
		return escaped("%s can be written", found)
	}
	return held("%d files, the last: %v", seen, last)
}

func listKeys(e *Env) Verdict {
	if e.Key == "" {
		return absent("a key")
	}
	b, err := os.ReadFile("/proc/keys")
	if err == nil && !strings.Contains(string(b), e.Key) {
		err = errors.New("the host's key is not among them")
	}
	return call("reading it", err)
}

func readKey(e *Env) Verdict {
	if e.Key == "" {
		return absent("a key")
	}
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", e.Key, 0)
	if err != nil {
		return held("keyctl: %v", err)
	}
	b := make([]byte, 256)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, b, len(b))
	if err == nil && !e.Is(b[:min(n, len(b))]) {
		err = errors.New("it holds something else")
	}
	return call("reading it", err)
}

func makeMap(*Env) Verdict {
	attr := struct{ kind, key, value, entries, flags uint32 }{kind: 2, key: 4, value: 4, entries: 1} // BPF_MAP_TYPE_ARRAY
	return tryFD("bpf", func() (int, error) {
		const create = 0
		fd, _, errno := unix.Syscall(unix.SYS_BPF, create, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		return int(fd), errnoErr(errno)
	})
}

func openCounter(*Env) Verdict {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Bits: unix.PerfBitExcludeKernel}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return tryFD("perf_event_open", func() (int, error) { return unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC) })
}
