//go:build linux

package containerd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	contrib "github.com/containerd/containerd/v2/contrib/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/seccomp"
)

// localArch is the engine's, which is on this machine, as GOARCH.
const localArch = runtime.GOARCH

// A host is what of this machine a container's specification depends on.
type host struct {
	cgroupNamespaces bool
	swapLimit        bool   // the kernel can limit swap, or there is nothing to switch on for it
	apparmor         string // profile; empty: the machine has no AppArmor
}

// defaultPath is PATH of PID 1 where the image says none. Commands have their
// own.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// paths of the kernel's that tell of the machine or change it, as Docker masks
// them and makes them read-only.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// cpuPeriod is the time in which a container has its share of processors, in
// microseconds: the kernel's default, and Docker's.
const cpuPeriod = 100_000

// defaultShm is the size of /dev/shm where none is given: Docker's.
const defaultShm int64 = 64 << 20

// ociSpec is a container in the terms of the runtime. dir has the container's
// files on this machine.
func ociSpec(s engine.Spec, id, cgroup, dir string, imageEnv []string, h host) (*specs.Spec, error) {
	if s.Network != "" {
		return nil, noNetwork(s.Network)
	}
	if s.AppArmor != "" && h.apparmor == "" {
		return nil, corral.Errorf(corral.ErrInvalid, "leave it out", "the AppArmor profile %s cannot be used: this machine has no AppArmor", s.AppArmor)
	}
	user, err := parseUser(s.User)
	if err != nil {
		return nil, err
	}
	mounts, err := ociMounts(s, dir)
	if err != nil {
		return nil, err
	}
	env := slices.Clone(imageEnv)
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
		env = append(env, defaultPath)
	}
	notPreferred := 0 // else that of the shim, which the kernel spares
	spec := &specs.Spec{
		Version:  "1.0.2", // what runtimes of all ages take
		Hostname: engine.Hostname(s.Name),
		Root:     &specs.Root{Path: "rootfs", Readonly: true},
		Mounts:   mounts,
		Process: &specs.Process{
			Args: s.Args, Env: env, Cwd: cmp.Or(s.Dir, "/"), User: user,
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			OOMScoreAdj:     &notPreferred,
			ApparmorProfile: cmp.Or(s.AppArmor, h.apparmor),
			Rlimits:         slices.Clone(s.Rlimits),
		},
		Linux: &specs.Linux{
			CgroupsPath: cgroup,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.MountNamespace}, {Type: specs.NetworkNamespace},
			},
			MaskedPaths:   slices.Clone(maskedPaths),
			ReadonlyPaths: slices.Clone(readonlyPaths),
			Resources:     resources(s, h),
			// The network is the container's own: a port below 1024 is no
			// privilege there.
			Sysctl: map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
		},
	}
	if s.Root {
		spec.Root.Readonly = false
		all := slices.Clone(engine.RootCapabilities)
		spec.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
	}
	if h.cgroupNamespaces {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	spec.Linux.Seccomp = cmp.Or(s.Seccomp, seccomp.Profile(localArch), contrib.DefaultProfile(spec))
	if !slices.ContainsFunc(s.Rlimits, func(l specs.POSIXRlimit) bool { return l.Type == "RLIMIT_CORE" }) {
		spec.Process.Rlimits = append(spec.Process.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_CORE"})
	}
	return spec, nil
}

func parseUser(user string) (specs.User, error) {
	u, g, _ := strings.Cut(user, ":")
	uid, err := strconv.ParseUint(u, 10, 32)
	gid, gerr := strconv.ParseUint(g, 10, 32)
	if err != nil || gerr != nil {
		return specs.User{}, corral.Errorf(corral.ErrInvalid, "use numbers, such as 1000:1000", "%q is not a user and group for a container", user)
	}
	return specs.User{UID: uint32(uid), GID: uint32(gid), AdditionalGids: []uint32{uint32(gid)}}, nil
}

func resources(s engine.Spec, h host) *specs.LinuxResources {
	r := &specs.LinuxResources{
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}, // the runtime adds the usual ones
	}
	if s.Memory > 0 {
		memory := s.Memory
		r.Memory = &specs.LinuxMemory{Limit: &memory}
		swap := memory + s.Swap // the runtime's is of both
		if s.Swap < 0 {
			swap = -1
		}
		if h.swapLimit {
			r.Memory.Swap = &swap
		}
	}
	if s.CPUs > 0 {
		quota, period := int64(s.CPUs*cpuPeriod), uint64(cpuPeriod)
		r.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	if s.Pids > 0 {
		r.Pids = &specs.LinuxPids{Limit: &s.Pids}
	}
	return r
}

// ociMounts are the kernel's file systems, those of the specification and the
// container's own files, a directory before what is below it.
func ociMounts(s engine.Spec, dir string) ([]specs.Mount, error) {
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", fmt.Sprintf("size=%d", cmp.Or(s.Shm, defaultShm))}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		bind(filepath.Join(dir, hostnameFile), "/etc/hostname", true),
	}
	for _, t := range s.Tmpfs {
		mounts = append(mounts, specs.Mount{Destination: t.Target, Type: "tmpfs", Source: "tmpfs", Options: t.Options(s.User)})
	}
	for _, m := range s.Mounts {
		if m.Volume {
			return nil, fmt.Errorf("cannot mount the volume %s: containerd has none: %w", m.Source, errors.ErrUnsupported)
		}
		mounts = append(mounts, bind(m.Source, m.Target, m.ReadOnly))
	}
	slices.SortStableFunc(mounts, func(a, b specs.Mount) int {
		return cmp.Compare(strings.Count(path.Clean(a.Destination), "/"), strings.Count(path.Clean(b.Destination), "/"))
	})
	return mounts, nil
}

// bind is a mount of a file or directory of this machine, with what is mounted
// below it only where that need not be made read-only.
func bind(source, target string, readOnly bool) specs.Mount {
	options := []string{"rbind", "rw"}
	if readOnly {
		options = []string{"bind", "ro"}
	}
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: append(options, "rprivate", "nosuid", "nodev")}
}

// thisHost looks at the machine.
func thisHost() host {
	exists := func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}
	return host{
		cgroupNamespaces: exists("/proc/self/ns/cgroup"),
		swapLimit:        cgroupVersion() == "2" || exists(cgroupRoot+"/memory/memory.memsw.limit_in_bytes"),
	}
}
