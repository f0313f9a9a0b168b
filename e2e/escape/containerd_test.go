//go:build e2e && linux

package escape_test

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/containerd"
)

type containerdEngine struct {
	*containerd.Engine
	c *client.Client
}

func openContainerd(t *testing.T) weakener {
	e := enginetest.Containerd(t)
	c, err := client.New(e.Address(), client.WithDefaultNamespace(containerd.DefaultNamespace))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return containerdEngine{e, c}
}

func (e containerdEngine) weaken(ctx context.Context, t *testing.T, original string, with control) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	c, err := e.copyOf(ctx, t, original, with)
	must(t, err)
	defer func() {
		if err := c.Delete(context.WithoutCancel(ctx), client.WithSnapshotCleanup); err != nil {
			t.Error(err)
		}
	}()
	task, err := c.NewTask(ctx, cio.NullIO)
	if err != nil {
		t.Fatalf("%s: %v", with.weakening, err)
	}
	defer func() {
		if _, err := task.Delete(context.WithoutCancel(ctx), client.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	}()
	ended, err := task.Wait(ctx)
	if err == nil {
		err = task.Start(ctx)
	}
	if err != nil {
		t.Fatalf("%s: %v", with.weakening, err)
	}
	// What it was able to do is in its file.
	if status := <-ended; ctx.Err() != nil {
		t.Fatalf("%s: %v", with.weakening, errors.Join(status.Error(), ctx.Err()))
	}
}

// copyOf makes the weaker container, on a root of its own.
func (e containerdEngine) copyOf(ctx context.Context, t *testing.T, original string, with control) (client.Container, error) {
	t.Helper()
	from, err := e.c.LoadContainer(ctx, original)
	must(t, err)
	info, err := from.Info(ctx)
	must(t, err)
	img, err := from.Image(ctx)
	must(t, err)
	spec, err := from.Spec(ctx)
	must(t, err)
	id := "escape-" + strings.ToLower(rand.Text())
	spec.Linux.CgroupsPath = "/" + containerd.DefaultNamespace + "/" + id
	spec.Process.Args = with.args
	spec.Process.Env = append(spec.Process.Env, with.env...)
	for i := range spec.Mounts {
		if spec.Mounts[i].Destination == sandbox.Workdir {
			spec.Mounts[i].Source = with.workspace
		}
	}
	owner := uint32(with.owner)
	spec.Process.User = specs.User{UID: owner, GID: owner, AdditionalGids: []uint32{owner}}
	for _, b := range with.binds {
		spec.Mounts = append(spec.Mounts, hostMount(b.source, b.target, b.readOnly))
	}
	change, ok := containerdWeakenings[with.weakening]
	if !ok {
		t.Fatalf("no weakening %q", with.weakening)
	}
	change(spec)
	return e.c.NewContainer(ctx, id, client.WithSnapshotter(info.Snapshotter), client.WithNewSnapshot(id, img), client.WithImageName(info.Image),
		client.WithRuntime(info.Runtime.Name, info.Runtime.Options), client.WithSpec(spec))
}

func hostMount(source, target string, readOnly bool) specs.Mount {
	mode := "rw"
	if readOnly {
		mode = "ro"
	}
	return specs.Mount{Type: "bind", Source: source, Destination: target, Options: []string{"rbind", "rprivate", mode}}
}

type specChange func(*specs.Spec)

func every(changes ...specChange) specChange {
	return func(s *specs.Spec) {
		for _, change := range changes {
			change(s)
		}
	}
}

var containerdWeakenings = map[probes.Weakening]specChange{
	probes.Root:       specRoot,
	probes.Caps:       specAllCaps,
	probes.Seccomp:    specNoSeccomp,
	probes.NewPrivs:   specNewPrivs,
	probes.FileCaps:   every(specNewPrivs, specBounding),
	probes.Paths:      specUnmasked,
	probes.RootPaths:  every(specRoot, specUnmasked),
	probes.Privileged: specPrivileged,
	probes.RootWrites: every(specRoot, func(s *specs.Spec) { s.Root.Readonly = false }),
	probes.OurWrites:  every(specRoot, specWritableMounts),
	probes.HostPID:    shares(specs.PIDNamespace),
	probes.HostPIDAll: every(specAllCaps, shares(specs.PIDNamespace)),
	probes.HostNet:    every(shares(specs.NetworkNamespace), func(s *specs.Spec) { s.Linux.Sysctl = nil }),
	probes.HostIPC:    every(shares(specs.IPCNamespace), specHostShm),
	probes.HostRoot:   specAsIs,
	probes.Sockets:    specRoot,
	probes.Metadata:   specAllCaps,
	probes.OpenInit:   specNoSeccomp,
	probes.OpenServer: specAsIs,
	probes.Leak:       specAsIs,
	probes.Nested:     specAsIs,
	probes.Cores:      specCores,
	probes.Variable:   specAsIs,
}

func specAsIs(*specs.Spec) {}

func specRoot(s *specs.Spec) { s.Process.User = specs.User{} }

func specNoSeccomp(s *specs.Spec) { s.Linux.Seccomp = nil }

func specBounding(s *specs.Spec) {
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: allowed()}
}

func specAllCaps(s *specs.Spec) {
	specRoot(s)
	specNoSeccomp(s)
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: allowed(), Effective: allowed(), Permitted: allowed()}
	s.Process.ApparmorProfile = ""
	shares(specs.CgroupNamespace)(s) // in another one no hierarchy can be made
}

// specNewPrivs takes away both that hold set-user-ID files: they would be ignored
// on the mount, too.
func specNewPrivs(s *specs.Spec) {
	s.Process.NoNewPrivileges = false
	for i := range s.Mounts {
		s.Mounts[i].Options = slices.DeleteFunc(s.Mounts[i].Options, func(o string) bool { return o == "nosuid" })
	}
}

func specUnmasked(s *specs.Spec) { s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil }

func specPrivileged(s *specs.Spec) {
	specAllCaps(s)
	specUnmasked(s)
	s.Linux.Resources.Devices = []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}
	s.Linux.Devices = append(s.Linux.Devices, specs.LinuxDevice{Path: "/dev/kmsg", Type: "c", Major: 1, Minor: 11})
	for _, dir := range []string{"/sys", "/sys/fs/cgroup"} {
		i := slices.IndexFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == dir })
		s.Mounts[i] = hostMount(dir, dir, false)
	}
}

func specWritableMounts(s *specs.Spec) {
	for i := range s.Mounts {
		if s.Mounts[i].Type == "bind" {
			s.Mounts[i].Options = slices.DeleteFunc(s.Mounts[i].Options, func(o string) bool { return o == "ro" })
		}
	}
}

// shares makes a namespace the host's.
func shares(kind specs.LinuxNamespaceType) specChange {
	return func(s *specs.Spec) {
		s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind })
	}
}

func specHostShm(s *specs.Spec) {
	for i, m := range s.Mounts {
		if m.Destination == "/dev/shm" {
			s.Mounts[i] = hostMount(m.Destination, m.Destination, false)
		}
	}
}

func specCores(s *specs.Spec) {
	s.Process.Rlimits = slices.DeleteFunc(s.Process.Rlimits, func(l specs.POSIXRlimit) bool { return l.Type == "RLIMIT_CORE" })
	s.Process.Rlimits = append(s.Process.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_CORE", Hard: math.MaxUint64, Soft: math.MaxUint64})
}
