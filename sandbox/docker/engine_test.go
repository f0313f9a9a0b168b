package docker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral/sandbox/engine"
)

// Whatever a specification says, a container is hardened.
func TestConfigsAreHardened(t *testing.T) {
	for _, s := range []engine.Spec{{}, {User: "1:1", Memory: 5, Network: "team", Stdio: true}, {User: "0:0", Root: true}} {
		cfg, host, err := configs(s)
		if err != nil {
			t.Fatal(err)
		}
		if host.Privileged || host.ReadonlyRootfs == s.Root || !slices.Equal(host.CapDrop, []string{"ALL"}) || (len(host.CapAdd) > 0) != s.Root || !slices.Contains(host.SecurityOpt, "no-new-privileges") ||
			host.PidMode != "" || host.UTSMode != "" || host.UsernsMode != "" || host.IpcMode != "private" || host.CgroupnsMode != "private" || len(host.Devices) > 0 || host.LogConfig.Type != "none" || host.PublishAllPorts {
			t.Errorf("%+v", host)
		}
		for _, c := range host.CapAdd { // what is about the files and users of the container alone
			if !slices.Contains([]string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}, c) {
				t.Errorf("root has %s", c)
			}
		}
		for _, opt := range host.SecurityOpt {
			if strings.Contains(opt, "unconfined") || strings.Contains(opt, "disable") {
				t.Errorf("%q", opt)
			}
		}
		if len(cfg.Env) > 0 || host.NetworkMode.IsNone() != (s.Network == "") || cfg.NetworkDisabled && s.Network != "" {
			t.Errorf("%+v", cfg)
		}
	}
}

// Without a network the engine's is not set up where a file says what addresses there are.
func TestConfigsOfHosts(t *testing.T) {
	file := []engine.Mount{{Source: "/d/hosts", Target: engine.HostsFile, ReadOnly: true}}
	for _, tc := range []struct {
		s        engine.Spec
		disabled bool
		hosts    []string
	}{
		{engine.Spec{Name: "corral-a.b"}, false, []string{"corral-a-b:127.0.0.1"}},
		{engine.Spec{Name: "corral-a", Mounts: file}, true, nil},
		{engine.Spec{Name: "corral-a", Mounts: []engine.Mount{{Source: "/srv/etc", Target: "/etc", ReadOnly: true}}}, true, nil},
		{engine.Spec{Name: "corral-a", Network: "team"}, false, nil},
	} {
		cfg, host, err := configs(tc.s)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Hostname != engine.Hostname(tc.s.Name) || cfg.NetworkDisabled != tc.disabled || !slices.Equal(host.ExtraHosts, tc.hosts) {
			t.Errorf("%+v: %+v, %v", tc.s, cfg, host.ExtraHosts)
		}
	}
}

// What a specification asks for is asked for.
func TestConfigs(t *testing.T) {
	s := engine.Spec{
		User: "3:4", Memory: 100, Swap: 20, CPUs: 1.5, Pids: 7, Shm: 9, Network: "team", AppArmor: "mine", Seccomp: &specs.LinuxSeccomp{DefaultAction: specs.ActErrno},
		Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}, {Type: "RLIMIT_FSIZE", Soft: 5, Hard: 6}},
		Tmpfs:   []engine.Tmpfs{{Target: "/tmp", Size: 10, Inodes: 3, Mode: 0o1777, Exec: true}, {Target: "/run", Size: 11, Mode: 0o755}},
		Mounts:  []engine.Mount{{Source: "/srv/a", Target: "/a", ReadOnly: true}, {Source: "/srv/b", Target: "/b"}, {Source: "v", Target: "/v", Volume: true}},
	}
	_, host, err := configs(s)
	if err != nil {
		t.Fatal(err)
	}
	if host.Memory != 100 || host.MemorySwap != 120 || host.NanoCPUs != 1_500_000_000 || *host.PidsLimit != 7 || host.ShmSize != 9 || host.NetworkMode != "team" {
		t.Errorf("%+v", host)
	}
	var limits []string
	for _, u := range host.Ulimits {
		limits = append(limits, u.String())
	}
	if want := []string{"core=0:0", "fsize=5:6"}; !slices.Equal(limits, want) {
		t.Errorf("%q, want %q", limits, want)
	}
	if got := host.Tmpfs["/tmp"]; got != "rw,nosuid,nodev,exec,size=10,mode=1777,nr_inodes=3,uid=3,gid=4" {
		t.Error(got)
	}
	if got := host.Tmpfs["/run"]; got != "rw,nosuid,nodev,noexec,size=11,mode=755,uid=3,gid=4" {
		t.Error(got)
	}
	memoryFiles(host)
	if got := host.Tmpfs["/tmp"]; got != "rw,nosuid,nodev,exec,size=10,mode=1777,U" {
		t.Errorf("for Podman: %s", got)
	}
	if !slices.Contains(host.SecurityOpt, "apparmor=mine") {
		t.Errorf("%q", host.SecurityOpt)
	}
	i := slices.IndexFunc(host.SecurityOpt, func(s string) bool { return strings.HasPrefix(s, "seccomp=") })
	if i < 0 || !json.Valid([]byte(strings.TrimPrefix(host.SecurityOpt[i], "seccomp="))) {
		t.Errorf("%q", host.SecurityOpt)
	}
	a, b, v := host.Mounts[0], host.Mounts[1], host.Mounts[2]
	if !a.ReadOnly || !a.BindOptions.NonRecursive || a.BindOptions.Propagation != mount.PropagationRPrivate || b.ReadOnly || b.BindOptions.NonRecursive || v.Type != mount.TypeVolume {
		t.Errorf("%+v", host.Mounts)
	}
	s.Swap = -1
	if _, host, err := configs(s); err != nil || host.MemorySwap != -1 {
		t.Errorf("%d, %v", host.MemorySwap, err)
	}
}
