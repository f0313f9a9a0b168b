package probes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var mounts = []Probe{
	{ID: "mount/tmpfs", Tries: "mounts a file system", Why: "CAP_SYS_ADMIN, mount(2)", Weak: Caps, Run: func(e *Env) Verdict {
		return mountAt(e, "tmpfs", 0)
	}},
	{ID: "mount/proc", Tries: "mounts /proc anew, with nothing of it hidden", Why: "proc(5); CVE-2019-16884, CVE-2021-25741", Weak: Caps, Run: func(e *Env) Verdict {
		return mountAt(e, "proc", 0)
	}},
	{ID: "mount/bind", Tries: "mounts a directory somewhere else", Why: "mount(2), MS_BIND", Weak: Caps, Run: func(e *Env) Verdict {
		return mountAt(e, "/", unix.MS_BIND)
	}},
	{ID: "mount/new-calls", Tries: "mounts a file system by fsopen and fsmount", Why: "fsopen(2): other system calls than mount", Weak: Caps, GVisor: "gVisor has no fsopen", Run: newCalls},
	{ID: "mount/remount", Tries: "makes the root writable", Why: "mount(2), MS_REMOUNT", Weak: Caps, GVisor: "this release of gVisor cannot change a mount", Run: remount},
	{ID: "mount/unmask", Tries: "unmounts what hides a file of /proc", Why: "umount2(2)", Weak: Caps, GVisor: "gVisor hides nothing by mounts: there is nothing of the host to hide", Run: unmask},
	{ID: "mount/root", Tries: "writes to the root, /usr, /etc and /bin", Why: "a root that is writable outlives the command", Weak: RootWrites, Run: func(*Env) Verdict {
		return anyOf("writing", []string{"/", "/usr", "/etc", "/bin", "/lib"}, writes)
	}},
	{ID: "mount/warden", Tries: "overwrites the warden's program, which is a file of the host", Why: "CVE-2019-5736 did so with runc", Weak: OurWrites, Run: overwriteWarden},
	{ID: "mount/host-file", Tries: "reads a file of the host by its path, also below /host and where other processes have their root", Why: "docker run -v /:/host", Weak: HostRoot, Run: hostFile},
	{ID: "mount/symlink", Tries: "reads a file of the host through a symbolic link that it makes in the workspace", Why: "symlink(7)", Weak: HostRoot, Run: throughLink},
	{ID: "mount/nested", Tries: "finds a mount in a place that it can change while containers are made", Why: "CVE-2021-30465: a symbolic link in the place of the mount point", Weak: Nested, Run: nestedMount},
}

// mountAt mounts on a directory of its own.
func mountAt(e *Env, source string, flags uintptr) Verdict {
	dir, err := e.scratch("mount")
	if err != nil {
		return lacking("%v", err)
	}
	return call("mount", unmounted(dir, unix.Mount(source, dir, source, flags, "")))
}

func newCalls(*Env) Verdict {
	fsfd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return held("fsopen: %v", err)
	}
	defer unix.Close(fsfd)
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return held("fsconfig: %v", err)
	}
	return tryFD("fsmount", func() (int, error) { return unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, 0) })
}

func remount(*Env) Verdict {
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
		// What is not a mount of its own takes the other form.
		if err2 := unix.Mount("", "/", "", unix.MS_REMOUNT, ""); err2 != nil {
			return held("mount: %v", err)
		}
	}
	return call("writing to the root", writes("/"))
}

func unmask(*Env) Verdict {
	return anyOf("umount2", []string{"/proc/keys", "/proc/timer_list", "/proc/kcore", "/proc/sys", "/proc/irq"}, func(path string) error {
		return unix.Unmount(path, unix.MNT_DETACH)
	})
}

// writes makes a file in dir, and removes it.
func writes(dir string) error {
	file := filepath.Join(dir, "corral-escape")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(file))
}

const wardenFile = "/.corral/warden"

func overwriteWarden(*Env) Verdict {
	info, err := os.Stat(wardenFile)
	if err != nil {
		return held("%v", err)
	}
	if err := os.Chmod(wardenFile, 0o755); err != nil {
		return held("%v", err)
	}
	f, err := os.OpenFile(wardenFile, os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	}
	err = errors.Join(err, os.Chmod(wardenFile, info.Mode()))
	if errors.Is(err, unix.ETXTBSY) { // it runs at the moment; that passes
		return escaped("%s can be written once it does not run", wardenFile)
	}
	return call("opening it for writing", err)
}

func hostFile(e *Env) Verdict {
	if e.File == "" {
		return absent("a file of the host")
	}
	paths := []string{e.File, strings.Repeat("../", 20) + e.File}
	for _, root := range []string{"/host", "/mnt", "/rootfs", "/hostfs", "/proc/1/root", "/proc/1/cwd/../../.."} {
		paths = append(paths, root+e.File)
	}
	return anyOf("reading it", paths, e.reads)
}

func throughLink(e *Env) Verdict {
	if e.File == "" || e.Workspace == "" {
		return absent("a file of the host")
	}
	link := fmt.Sprintf("%s/link-%d", e.Workspace, os.Getpid())
	return anyOf("reading it", []string{e.File, "../../../.." + e.File, "/host" + e.File}, func(target string) error {
		if err := os.Symlink(target, link); err != nil {
			return err
		}
		return errors.Join(e.reads(link), os.Remove(link))
	})
}

// nestedMount looks for mount points below directories that can be written to,
// other than those that the runtime makes in a file system it made.
func nestedMount(*Env) Verdict {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return lacking("%v", err)
	}
	var points []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 {
			points = append(points, f[4])
		}
	}
	for _, p := range points {
		parent := filepath.Dir(p)
		if under(p, "/proc") || under(p, "/sys") || under(p, "/dev") {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, parent, unix.W_OK, 0) == nil {
			return escaped("%s is mounted, and %s can be changed", p, parent)
		}
	}
	return held("none of %d mounts is in such a place", len(points))
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
