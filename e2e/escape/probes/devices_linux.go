package probes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const noDevices = "gVisor's devices are of its own making: the host's numbers mean nothing there"

var devices = []Probe{
	{ID: "dev/disk", Tries: "makes a node of a disk of the host and reads it", Why: "CAP_MKNOD and the device cgroup; CVE-2015-3630", Weak: Privileged, GVisor: noDevices, Run: func(e *Env) Verdict {
		if e.Disk == "" {
			return absent("the number of a disk")
		}
		return node(e, unix.S_IFBLK, []string{e.Disk}, e.reads)
	}},
	{ID: "dev/kernel-log", Tries: "makes a node of the kernel's log and reads it", Why: "/dev/kmsg", Weak: Privileged, GVisor: noDevices, Run: func(e *Env) Verdict {
		return node(e, unix.S_IFCHR, []string{"1:11"}, openable)
	}},
	{ID: "dev/misc", Tries: "makes nodes of the host's loop control, tun, fuse, kvm, … and opens them", Why: "the device cgroup", Weak: Privileged, Inside: "the number of tun is gVisor's own device, in its own network", Run: func(e *Env) Verdict {
		if len(e.Misc) == 0 {
			return absent("numbers of devices")
		}
		return node(e, unix.S_IFCHR, e.Misc, openable)
	}},
	{ID: "dev/block", Tries: "opens a disk, the kernel's log or the machine's memory in /dev", Why: "/dev of privileged containers is the host's", Weak: Privileged, GVisor: noDevices, Run: present},
	{ID: "dev/change", Tries: "adds a file to /dev, from where the runtime takes what it hides files with", Why: "CVE-2025-31133", Weak: Root, Run: func(*Env) Verdict {
		const file = "/dev/corral-escape"
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(file))
		}
		return call("making "+file, err)
	}},
}

// node makes a device, in one of several places, and uses it.
func node(e *Env, kind uint32, numbers []string, use func(string) error) Verdict {
	var last error
	for _, number := range numbers {
		var major, minor uint32
		if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
			return lacking("%q is no device: %v", number, err)
		}
		for _, dir := range []string{e.Dir, "/dev", "/dev/shm", e.Workspace} {
			file := dir + "/corral-node"
			if last = unix.Mknod(file, kind|0o600, int(unix.Mkdev(major, minor))); last != nil {
				continue
			}
			last = use(file)
			_ = os.Remove(file) // the container goes anyway
			if last == nil {
				return escaped("the device %s was opened", number)
			}
		}
	}
	return held("%v", last)
}

// openable opens a device, and of a disk reads the beginning.
func openable(file string) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		_, err = unix.Read(fd, make([]byte, 512))
	}
	return err
}

// present looks for devices of the host that are there already.
func present(*Env) Verdict {
	found, last := "", error(nil)
	err := filepath.WalkDir("/dev", func(path string, d fs.DirEntry, err error) error {
		if err != nil || found != "" || d.Type()&fs.ModeDevice == 0 {
			return nil //nolint:nilerr // what cannot be looked at is no way out
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // gone meanwhile
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		memory := ok && unix.Major(st.Rdev) == 1 && (unix.Minor(st.Rdev) <= 4 && unix.Minor(st.Rdev) != 3 || unix.Minor(st.Rdev) == 11)
		if block := d.Type()&fs.ModeCharDevice == 0; block || memory {
			if last = openable(path); last == nil {
				found = path
			}
		}
		return nil
	})
	switch {
	case found != "":
		return escaped("%s was opened", found)
	case last != nil:
		return held("%v", last)
	}
	return held("there is none: %v", err)
}
