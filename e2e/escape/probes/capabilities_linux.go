package probes

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var capabilities = []Probe{
	{ID: "cap/setuid-file", Tries: "executes a set-user-ID file of root that lies in the workspace", Why: "prctl(2), PR_SET_NO_NEW_PRIVS", Weak: NewPrivs, GVisor: "this release of gVisor ignores the set-user-ID bit", Run: setuidFile},
	{ID: "cap/file-capabilities", Tries: "executes a file in the workspace that has capabilities", Why: "capabilities(7), file capabilities", Weak: FileCaps, GVisor: "this release of gVisor ignores capabilities of files", Run: fileCapabilities},
	{ID: "cap/ambient", Tries: "raises an ambient capability", Why: "capabilities(7), ambient set", Weak: Caps, GVisor: "gVisor has no ambient capabilities", Run: ambient},
	{ID: "cap/setuid", Tries: "becomes another user", Why: "CAP_SETUID", Weak: Caps, Run: becomeAnother},
	{ID: "cap/setgroups", Tries: "joins root's group", Why: "CAP_SETGID", Weak: Caps, Run: joinGroups},
	{ID: "cap/chown", Tries: "gives a file of its own to another user", Why: "CAP_CHOWN", Weak: Caps, Run: giveAway},
	{ID: "cap/root-file", Tries: "reads a file in the workspace that only root may read", Why: "user 0 is the host's where no user namespace is used", Weak: Root, Run: func(e *Env) Verdict {
		return readLaidOut(e, e.Locked, "a file of root")
	}},
	{ID: "cap/foreign-file", Tries: "reads a file in the workspace that only another user may read", Why: "CAP_DAC_OVERRIDE", Weak: Caps, Run: func(e *Env) Verdict {
		return readLaidOut(e, e.Foreign, "a file of another user")
	}},
	{ID: "cap/file-handle", Tries: "opens a file of the host by its handle, past all mounts", Why: "CAP_DAC_READ_SEARCH, open_by_handle_at(2); the program shocker, 2014", Weak: Caps, GVisor: "gVisor has no open_by_handle_at", Run: fileHandle},
	{ID: "cap/packet-socket", Tries: "opens a packet socket", Why: "CAP_NET_RAW; CVE-2020-14386", Weak: Caps, GVisor: "gVisor gives no raw sockets unless started with --net-raw", Run: func(*Env) Verdict {
		const all = 0x0300 // ETH_P_ALL in network order
		return tryFD("socket(AF_PACKET)", func() (int, error) { return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all) })
	}},
	{ID: "cap/raw-socket", Tries: "opens a raw socket", Why: "CAP_NET_RAW", Weak: Caps, GVisor: "gVisor gives no raw sockets unless started with --net-raw", Run: func(*Env) Verdict {
		return tryFD("socket(SOCK_RAW)", func() (int, error) {
			return unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		})
	}},
	{ID: "cap/network-admin", Tries: "changes a network interface", Why: "CAP_NET_ADMIN", Weak: Caps, GVisor: "gVisor's interfaces cannot be changed by ioctl", Run: changeInterface},
	{ID: "cap/clock", Tries: "sets how fast the machine's clock runs, to what it is", Why: "CAP_SYS_TIME", Weak: Caps, GVisor: "gVisor has no adjtimex", Run: setClock},
	{ID: "cap/nice", Tries: "raises its own priority over the machine's other processes", Why: "CAP_SYS_NICE", Weak: Caps, Inside: "gVisor keeps the number, and schedules by nothing of it", Run: func(*Env) Verdict {
		return call("setpriority", unix.Setpriority(unix.PRIO_PROCESS, 0, -5))
	}},
	{ID: "cap/kernel-log", Tries: "reads the kernel's log", Why: "CAP_SYSLOG, syslog(2)", Weak: Caps, GVisor: "gVisor shows a log of its own making", Run: kernelLog},
	{ID: "cap/reboot", Tries: "calls reboot, with numbers that do nothing", Why: "CAP_SYS_BOOT", Weak: Caps, GVisor: "gVisor has no reboot", Run: reboot},
	{ID: "cap/chroot", Tries: "changes its root directory", Why: "CAP_SYS_CHROOT, chroot(2)", Weak: Caps, Run: func(e *Env) Verdict {
		return call("chroot", unix.Chroot(e.Dir))
	}},
	{ID: "cap/set-file-capability", Tries: "gives a file of its own a capability", Why: "CAP_SETFCAP", Weak: Caps, GVisor: "this release of gVisor stores no such attribute", Run: setFileCapability},
	{ID: "cap/hostname", Tries: "sets the host name, to what it is", Why: "CAP_SYS_ADMIN, sethostname(2)", Weak: Caps, Run: setHostname},
}

func setuidFile(e *Env) Verdict {
	if e.SetUID == "" {
		return absent("a set-user-ID file of root")
	}
	out, err := exec.Command(e.SetUID, "whoami").Output()
	var uid int
	var caps string
	if _, serr := fmt.Sscan(string(out), &uid, &caps); err != nil || serr != nil {
		return held("it does not run: %v", err)
	}
	if uid == 0 {
		return escaped("the program ran as root")
	}
	return held("the program ran as user %d", uid)
}

func fileCapabilities(e *Env) Verdict {
	if e.FileCap == "" {
		return absent("a file with capabilities")
	}
	out, err := exec.Command(e.FileCap, "whoami").Output()
	var uid int
	var caps string
	if _, serr := fmt.Sscan(string(out), &uid, &caps); err != nil || serr != nil {
		return held("it does not run: %v", err)
	}
	if strings.Trim(caps, "0") != "" {
		return escaped("the program had the capabilities %s", caps)
	}
	return held("the program had no capability")
}

const lastCapability = 63

func ambient(*Env) Verdict {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return held("capget: %v", err)
	}
	// The inheritable set is theirs to fill up to the permitted one.
	for i := range data {
		data[i].Inheritable = data[i].Permitted
	}
	_ = unix.Capset(&hdr, &data[0]) // fails where there is nothing to add
	var last error
	for c := range uintptr(lastCapability) {
		if last = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); last == nil {
			return escaped("raising the capability %d works", c)
		}
	}
	return held("raising: %v", last)
}

func becomeAnother(*Env) Verdict {
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 1, 1, 1) // of this thread; it ends with the probe
	return call("setresuid", errnoErr(errno))
}

func joinGroups(*Env) Verdict {
	zero := uint32(0)
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&zero)), 0)
	return call("setgroups", errnoErr(errno))
}

func errnoErr(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func giveAway(e *Env) Verdict {
	file := e.Dir + "/own"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return lacking("%v", err)
	}
	return call("chown", os.Chown(file, 1, 1))
}

func readLaidOut(e *Env, path, what string) Verdict {
	if path == "" {
		return absent(what)
	}
	return call("reading "+path, e.reads(path))
}

func fileHandle(e *Env) Verdict {
	var kind int32
	var raw []byte
	if _, err := fmt.Sscanf(e.Handle, "%d:%x", &kind, &raw); err != nil || e.Workspace == "" {
		return absent("a file of the host")
	}
	dir, err := unix.Open(e.Workspace, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return lacking("%v", err)
	}
	defer unix.Close(dir)
	fd, err := unix.OpenByHandleAt(dir, unix.NewFileHandle(kind, raw), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return held("open_by_handle_at: %v", err)
	}
	defer unix.Close(fd)
	b := make([]byte, 256)
	n, err := unix.Read(fd, b)
	if err != nil || !e.Is(b[:n]) {
		return held("it opened something else: %v", err)
	}
	return escaped("the host's file was read")
}

// tryFD judges a call that returns a descriptor.
func tryFD(what string, open func() (int, error)) Verdict {
	fd, err := open()
	if err == nil {
		unix.Close(fd)
	}
	return call(what, err)
}

func changeInterface(*Env) Verdict {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return held("socket: %v", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return lacking("%v", err)
	}
	if err := ioctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return held("SIOCGIFFLAGS: %v", err)
	}
	return call("SIOCSIFFLAGS", ioctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)) // what they are
}

func ioctlIfreq(fd int, request uintptr, ifr *unix.Ifreq) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(ifr)))
	return errnoErr(errno)
}

func setClock(*Env) Verdict {
	var now unix.Timex
	if _, err := unix.Adjtimex(&now); err != nil {
		return held("adjtimex, reading: %v", err)
	}
	const adjTick = 0x4000
	_, err := unix.Adjtimex(&unix.Timex{Modes: adjTick, Tick: now.Tick})
	return call("adjtimex", err)
}

func kernelLog(*Env) Verdict {
	log, err := readLog()
	if err == nil && strings.Contains(log, gVisorStarts) {
		return held("it is gVisor's")
	}
	return call("syslog", err)
}

func readLog() (string, error) {
	const readAll = 3
	b := make([]byte, 4096)
	n, err := unix.Klogctl(readAll, b)
	return string(b[:max(n, 0)]), err
}

// gVisorStarts is in the log that gVisor makes up for a program that asks for the
// kernel's.
const gVisorStarts = "Starting gVisor"

// gvisor reports whether the kernel is gVisor.
func gvisor() bool {
	log, err := readLog()
	return err == nil && strings.Contains(log, gVisorStarts)
}

func reboot(*Env) Verdict {
	_, _, errno := unix.RawSyscall6(unix.SYS_REBOOT, 0, 0, 0, 0, 0, 0)
	if errno == unix.EINVAL { // who may not gets EPERM before that
		return escaped("reboot works, and only minds its numbers")
	}
	return call("reboot", errnoErr(errno))
}

// netRawEffective is the extended attribute security.capability of a file with
// CAP_NET_RAW, permitted and effective (linux/capability.h, revision 2).
var netRawEffective = []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// NetRaw is that attribute, for the file at Site.FileCap.
func NetRaw() []byte { return append([]byte(nil), netRawEffective...) }

func setFileCapability(e *Env) Verdict {
	file := e.Dir + "/own"
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		return lacking("%v", err)
	}
	return call("setxattr", unix.Setxattr(file, "security.capability", netRawEffective, 0))
}

func setHostname(*Env) Verdict {
	name, err := os.Hostname()
	if err != nil {
		return lacking("%v", err)
	}
	return call("sethostname", unix.Sethostname([]byte(name)))
}
