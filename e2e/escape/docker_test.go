//go:build e2e && linux

package escape_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	units "github.com/docker/go-units"

	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

type dockerEngine struct {
	*docker.Engine
	c *client.Client
}

func openDocker(t *testing.T) weakener {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return dockerEngine{enginetest.New(t), c}
}

// controlLimit bounds what a weakened container may take.
const controlLimit = 2 * time.Minute

func (e dockerEngine) weaken(ctx context.Context, t *testing.T, original string, with control) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	cfg, host := e.copyOf(ctx, t, original)
	cfg.Entrypoint, cfg.Cmd = with.args, nil
	cfg.Env = append(cfg.Env, with.env...)
	cfg.OpenStdin, cfg.AttachStdin, cfg.AttachStdout = false, false, false
	cfg.Labels = map[string]string{sandbox.Label: "escape-control"}
	for i := range host.Mounts {
		if host.Mounts[i].Target == sandbox.Workdir {
			host.Mounts[i].Source = with.workspace
		}
	}
	cfg.User = fmt.Sprintf("%d:%d", with.owner, with.owner)
	for _, b := range with.binds {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: b.source, Target: b.target, ReadOnly: b.readOnly})
	}
	change, ok := dockerWeakenings[with.weakening]
	if !ok {
		t.Fatalf("no weakening %q", with.weakening)
	}
	change(cfg, host)
	made, err := e.c.ContainerCreate(ctx, cfg, host, nil, nil, "")
	if err != nil {
		t.Fatalf("%s: %v", with.weakening, err)
	}
	defer func() {
		if err := e.Remove(context.WithoutCancel(ctx), made.ID); err != nil {
			t.Error(err)
		}
	}()
	ended, failed := e.c.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := e.c.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatalf("%s: %v", with.weakening, err)
	}
	select {
	case <-ended: // what it was able to do is in its file
	case err := <-failed:
		t.Fatalf("%s: %v", with.weakening, err)
	}
}

// copyOf is what a container was made of, to be changed.
func (e dockerEngine) copyOf(ctx context.Context, t *testing.T, original string) (*container.Config, *container.HostConfig) {
	t.Helper()
	_, raw, err := e.c.ContainerInspectWithRaw(ctx, original, false)
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Config     *container.Config
		HostConfig *container.HostConfig
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		t.Fatal(err)
	}
	return made.Config, made.HostConfig
}

type change func(*container.Config, *container.HostConfig)

func all(changes ...change) change {
	return func(c *container.Config, h *container.HostConfig) {
		for _, change := range changes {
			change(c, h)
		}
	}
}

var dockerWeakenings = map[probes.Weakening]change{
	probes.Root:       asRoot,
	probes.Caps:       allCaps,
	probes.Seccomp:    noSeccomp,
	probes.NewPrivs:   newPrivs,
	probes.FileCaps:   all(newPrivs, addCaps),
	probes.Paths:      unmasked,
	probes.RootPaths:  all(asRoot, unmasked),
	probes.Privileged: privileged,
	probes.RootWrites: all(asRoot, writableRoot),
	probes.OurWrites:  all(asRoot, writableMounts),
	probes.HostPID:    hostPID,
	probes.HostPIDAll: all(allCaps, hostPID),
	probes.HostNet:    hostNet,
	probes.HostIPC:    func(_ *container.Config, h *container.HostConfig) { h.IpcMode = "host" },
	probes.HostRoot:   nothing,
	probes.Sockets:    asRoot,
	probes.Metadata:   allCaps,
	probes.OpenInit:   noSeccomp,
	probes.OpenServer: nothing,
	probes.Leak:       nothing,
	probes.Nested:     nothing,
	probes.Cores:      cores,
	probes.Variable:   nothing,
}

// nothing: the weakness is in what is mounted, started or served.
func nothing(*container.Config, *container.HostConfig) {}

func asRoot(c *container.Config, _ *container.HostConfig) { c.User = "0:0" }

func addCaps(_ *container.Config, h *container.HostConfig) {
	h.CapDrop, h.CapAdd = nil, allowed()
}

func allCaps(c *container.Config, h *container.HostConfig) {
	asRoot(c, h)
	addCaps(c, h)
	noSeccomp(c, h)
	h.SecurityOpt = append(h.SecurityOpt, "apparmor=unconfined")
	h.CgroupnsMode = container.CgroupnsModeHost // in another one no hierarchy can be made
}

// without removes security options.
func without(h *container.HostConfig, prefix string) {
	h.SecurityOpt = slices.DeleteFunc(h.SecurityOpt, func(o string) bool { return len(o) >= len(prefix) && o[:len(prefix)] == prefix })
}

func noSeccomp(_ *container.Config, h *container.HostConfig) {
	without(h, "seccomp")
	h.SecurityOpt = append(h.SecurityOpt, "seccomp=unconfined")
}

func newPrivs(_ *container.Config, h *container.HostConfig) { without(h, "no-new-privileges") }

func unmasked(_ *container.Config, h *container.HostConfig) {
	h.MaskedPaths, h.ReadonlyPaths = []string{}, []string{}
}

// privileged is what docker run --privileged gives. That itself fails where the
// machine cannot give every capability.
func privileged(c *container.Config, h *container.HostConfig) {
	allCaps(c, h)
	unmasked(c, h)
	h.DeviceCgroupRules = []string{"b *:* rwm", "c *:* rwm"}
	h.Devices = []container.DeviceMapping{{PathOnHost: "/dev/kmsg", PathInContainer: "/dev/kmsg", CgroupPermissions: "rwm"}}
	for _, dir := range []string{"/sys", "/sys/fs/cgroup"} {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: dir, Target: dir})
	}
}

func writableRoot(_ *container.Config, h *container.HostConfig) { h.ReadonlyRootfs = false }

func writableMounts(_ *container.Config, h *container.HostConfig) {
	for i := range h.Mounts {
		h.Mounts[i].ReadOnly = false
	}
}

func hostPID(_ *container.Config, h *container.HostConfig) { h.PidMode = "host" }

func hostNet(c *container.Config, h *container.HostConfig) {
	c.NetworkDisabled, c.Hostname, c.Domainname = false, "", ""
	h.NetworkMode = "host"
}

func cores(_ *container.Config, h *container.HostConfig) {
	h.Ulimits = slices.DeleteFunc(h.Ulimits, func(u *units.Ulimit) bool { return u.Name == "core" })
	h.Ulimits = append(h.Ulimits, &units.Ulimit{Name: "core", Soft: -1, Hard: -1})
}
