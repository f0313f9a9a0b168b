package probes

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const namespaceInside = "a namespace of gVisor's kernel gives nothing outside of it"

var preconditions = []Probe{
	{ID: "cve/fsconfig", Tries: "makes a user namespace and opens a file system in it", Why: "CVE-2022-0185, a heap overflow in fsconfig", Weak: Seccomp, GVisor: "gVisor has no fsopen", Run: func(*Env) Verdict {
		return inUserNamespace("fsopen")
	}},
	{ID: "cve/netfilter", Tries: "makes a user and a network namespace and administers the network in it", Why: "CVE-2021-22555, CVE-2022-25636, CVE-2023-32233, CVE-2024-1086, in netfilter", Weak: Seccomp, GVisor: namespaceInside, Run: func(*Env) Verdict {
		return inUserNamespace("network")
	}},
	{ID: "cve/overlayfs", Tries: "makes a user and a mount namespace and mounts an overlay in it", Why: "CVE-2021-3493, CVE-2023-0386, in overlayfs", Weak: Seccomp, GVisor: namespaceInside, Run: func(*Env) Verdict {
		return inUserNamespace("overlay")
	}},
	{ID: "cve/io-uring", Tries: "sets up an io_uring", Why: "CVE-2022-29582, CVE-2023-2598, CVE-2024-0582, in io_uring", Weak: Seccomp, Inside: "the ring is in gVisor's kernel, not in the host's", Run: func(*Env) Verdict {
		var params [120]byte
		return tryFD("io_uring_setup", func() (int, error) {
			fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
			return int(fd), errnoErr(errno)
		})
	}},
	{ID: "cve/leaked-directory", Tries: "climbs from its working directory and from every descriptor to a file of the host", Why: "CVE-2024-21626: a descriptor of the host's cgroup directory", Weak: Leak, Run: climb},
}

// inUserNamespace starts this program in a user namespace of its own, to do one
// of the parts of nested.
func inUserNamespace(part string) Verdict {
	cmd := self("nested", part)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) > 0 {
		err = fmt.Errorf("%w: %.100q", err, out)
	}
	return call("the namespace with "+part, err)
}

// nested is what is done with the rights that a user namespace gives.
func nested(part string) error {
	switch part {
	case "fsopen":
		_, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC) // closed with this process
		return err
	case "network":
		if v := changeInterface(nil); v.Outcome != "escaped" {
			return fmt.Errorf("%s", v.Detail)
		}
		return nil
	case "overlay":
		if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
			return err
		}
		for _, d := range []string{"lower", "upper", "work", "merged"} {
			if err := os.Mkdir("/tmp/"+d, 0o700); err != nil {
				return err
			}
		}
		return unix.Mount("overlay", "/tmp/merged", "overlay", 0, "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr")
	}
	return fmt.Errorf("no part %q", part)
}

func climb(e *Env) Verdict {
	if e.File == "" {
		return absent("a file of the host")
	}
	paths := []string{"../../../../../../../.." + e.File}
	for _, fd := range atStart {
		for _, up := range []string{"", "/..", "/../..", "/../../..", "/../../../../../../../.."} {
			paths = append(paths, fmt.Sprintf("/proc/self/fd/%d%s%s", fd, up, e.File))
		}
	}
	return anyOf("climbing", paths, e.reads)
}
