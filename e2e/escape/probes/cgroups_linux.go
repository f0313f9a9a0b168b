package probes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const ownCgroups = "control groups in gVisor are of its own making"

var cgroups = []Probe{
	{ID: "cgroup/release-agent", Tries: "mounts a cgroup hierarchy and opens its release_agent for writing", Why: "cgroups(7): a program named there runs as root on the host; CVE-2022-0492", Weak: Caps, GVisor: ownCgroups, Run: releaseAgent},
	{ID: "cgroup/limits", Tries: "opens its own limits for writing", Why: "cgroups(7)", Weak: Privileged, Run: func(*Env) Verdict {
		return cgroupFile("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us")
	}},
	{ID: "cgroup/devices", Tries: "opens the list of allowed devices, or the list of controllers, for writing", Why: "cgroups(7), devices.allow", Weak: Privileged, Run: func(*Env) Verdict {
		return cgroupFile("devices.allow", "cgroup.subtree_control")
	}},
	{ID: "cgroup/move", Tries: "opens the list of a cgroup's processes for writing", Why: "cgroups(7), cgroup.procs", Weak: Privileged, Run: func(*Env) Verdict {
		return cgroupFile("cgroup.procs", "tasks")
	}},
	{ID: "cgroup/create", Tries: "makes a cgroup", Why: "cgroups(7)", Weak: Privileged, Run: func(*Env) Verdict {
		dirs, _ := filepath.Glob("/sys/fs/cgroup/*") // the pattern is a good one
		return anyOf("mkdir", append([]string{"/sys/fs/cgroup"}, dirs...), func(dir string) error {
			dir += "/corral-escape"
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			return os.Remove(dir)
		})
	}},
	{ID: "cgroup/mount", Tries: "mounts the host's cgroup hierarchy", Why: "cgroups(7)", Weak: Caps, GVisor: ownCgroups, Run: func(e *Env) Verdict {
		dir, err := e.scratch("cgroup")
		if err != nil {
			return lacking("%v", err)
		}
		return call("mount", unmounted(dir, unix.Mount("cgroup2", dir, "cgroup2", 0, "")))
	}},
}

func releaseAgent(e *Env) Verdict {
	dir, err := e.scratch("cgroup")
	if err != nil {
		return lacking("%v", err)
	}
	// A hierarchy of its own, without controllers: it is nobody's and goes with
	// the mount.
	if err := unix.Mount("none", dir, "cgroup", 0, "none,name=corral-escape"); err != nil {
		return held("mount: %v", err)
	}
	f, err := os.OpenFile(dir+"/release_agent", os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	}
	return call("opening release_agent for writing", unmounted(dir, err))
}

// cgroupFile looks for one of the files, and opens it for writing.
func cgroupFile(names ...string) Verdict {
	seen, found, last := 0, "", error(nil)
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if seen++; found != "" || seen > maxWalked {
			return fs.SkipAll
		}
		if err != nil || !slices.Contains(names, d.Name()) {
			return nil //nolint:nilerr // what cannot be looked at is no way out
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if last = err; err == nil {
			found = path
			return f.Close()
		}
		return nil
	})
	if found != "" {
		return escaped("%s can be written", found)
	}
	return held("of %d files none: %v", seen, errors.Join(last, err))
}
