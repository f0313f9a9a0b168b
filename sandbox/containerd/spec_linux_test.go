package containerd

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

func testSpec() engine.Spec {
	return engine.Spec{
		Name: "box", Image: "i", Args: []string{"/.corral/warden"}, User: "1000:1001", Dir: "/workspace",
		Memory: 1 << 30, CPUs: 0.5, Pids: 100,
		Mounts: []engine.Mount{{Source: "/srv/work", Target: "/workspace"}, {Source: "/lib/warden", Target: "/.corral/warden", ReadOnly: true}},
		Tmpfs:  []engine.Tmpfs{{Target: "/tmp", Size: 1 << 20, Mode: 0o1777, Exec: true}, {Target: "/run/x", Size: 1 << 10, Mode: 0o755, Inodes: 9}},
	}
}

// Whatever is asked for, these hold.
func TestSpecIsHardened(t *testing.T) {
	loose := engine.Spec{User: "1:1"}
	for name, s := range map[string]engine.Spec{"usual": testSpec(), "nothing asked for": loose} {
		t.Run(name, func(t *testing.T) {
			spec, err := ociSpec(s, "box", "/corral/box", "/d", nil, host{cgroupNamespaces: true, swapLimit: true})
			if err != nil {
				t.Fatal(err)
			}
			p, l := spec.Process, spec.Linux
			if c := p.Capabilities; c == nil || len(slices.Concat(c.Ambient, c.Bounding, c.Effective, c.Inheritable, c.Permitted)) > 0 {
				t.Errorf("capabilities %+v", c)
			}
			if !p.NoNewPrivileges || !spec.Root.Readonly || p.OOMScoreAdj == nil || *p.OOMScoreAdj != 0 || p.Terminal {
				t.Errorf("process %+v, root %+v", p, spec.Root)
			}
			if !slices.Contains(p.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_CORE"}) {
				t.Errorf("limits %v", p.Rlimits)
			}
			if l.Seccomp == nil || l.Seccomp.DefaultAction != specs.ActErrno {
				t.Errorf("seccomp %+v", l.Seccomp)
			}
			var spaces []string
			for _, ns := range l.Namespaces {
				if ns.Path != "" {
					t.Errorf("the namespace %s is that of %s", ns.Type, ns.Path)
				}
				spaces = append(spaces, string(ns.Type))
			}
			slices.Sort(spaces)
			if got := strings.Join(spaces, " "); got != "cgroup ipc mount network pid uts" {
				t.Errorf("namespaces %s", got)
			}
			if d := l.Resources.Devices; len(d) != 1 || d[0].Allow || len(l.Devices) > 0 {
				t.Errorf("devices %+v, %+v", d, l.Devices)
			}
			for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/acpi", "/sys/firmware", "/proc/scsi", "/proc/timer_list"} {
				if !slices.Contains(l.MaskedPaths, path) {
					t.Errorf("%s is not masked", path)
				}
			}
			for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"} {
				if !slices.Contains(l.ReadonlyPaths, path) {
					t.Errorf("%s can be written to", path)
				}
			}
			if spec.Hooks != nil {
				t.Error("there are hooks")
			}
			for _, m := range spec.Mounts {
				if !slices.Contains(m.Options, "nosuid") || m.Type != "tmpfs" && m.Type != "devpts" && m.Type != "bind" && !slices.Contains(m.Options, "noexec") {
					t.Errorf("mount %+v", m)
				}
			}
		})
	}
}

func TestSpecOfMountsAndLimits(t *testing.T) {
	spec, err := ociSpec(testSpec(), "box", "/corral/box", "/d", []string{"LANG=C"}, host{swapLimit: true})
	if err != nil {
		t.Fatal(err)
	}
	byTarget := map[string]specs.Mount{}
	for _, m := range spec.Mounts {
		byTarget[m.Destination] = m
	}
	for target, want := range map[string]string{
		"/workspace":      "bind /srv/work rbind,rw,rprivate,nosuid,nodev",
		"/.corral/warden": "bind /lib/warden bind,ro,rprivate,nosuid,nodev",
		"/tmp":            "tmpfs tmpfs rw,nosuid,nodev,exec,size=1048576,mode=1777,uid=1000,gid=1001",
		"/run/x":          "tmpfs tmpfs rw,nosuid,nodev,noexec,size=1024,mode=755,nr_inodes=9,uid=1000,gid=1001",
		"/dev/shm":        "tmpfs shm nosuid,noexec,nodev,mode=1777,size=67108864",
	} {
		m := byTarget[target]
		if got := m.Type + " " + m.Source + " " + strings.Join(m.Options, ","); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	text, err := json.Marshal(spec.Linux.Resources)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"devices":[{"allow":false,"access":"rwm"}],"memory":{"limit":1073741824,"swap":1073741824},"cpu":{"quota":50000,"period":100000},"pids":{"limit":100}}`
	if string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if diff := cmp.Diff([]string{"LANG=C", defaultPath}, spec.Process.Env); diff != "" {
		t.Error(diff)
	}
	if u := spec.Process.User; u.UID != 1000 || u.GID != 1001 || !slices.Equal(u.AdditionalGids, []uint32{1001}) {
		t.Errorf("user %+v", u)
	}
	swaps := map[int64]int64{0: 1 << 30, 1 << 20: 1<<30 + 1<<20, -1: -1}
	for swap, want := range swaps {
		s := testSpec()
		s.Swap = swap
		if got := *resources(s, host{swapLimit: true}).Memory.Swap; got != want {
			t.Errorf("swap %d: %d, want %d", swap, got, want)
		}
		if resources(s, host{}).Memory.Swap != nil {
			t.Error("swap is limited where the kernel cannot")
		}
	}
}

// What the engine does not have is refused, not left out.
func TestSpecRefuses(t *testing.T) {
	for name, change := range map[string]func(*engine.Spec){
		"network":  func(s *engine.Spec) { s.Network = "bridge" },
		"apparmor": func(s *engine.Spec) { s.AppArmor = "mine" },
		"user":     func(s *engine.Spec) { s.User = "root" },
		"volume":   func(s *engine.Spec) { s.Mounts = []engine.Mount{{Source: "v", Target: "/v", Volume: true}} },
	} {
		s := testSpec()
		change(&s)
		_, err := ociSpec(s, "box", "/corral/box", "/d", nil, host{})
		if !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := testSpec()
	s.AppArmor = "mine"
	if spec, err := ociSpec(s, "box", "/c", "/d", nil, host{apparmor: "corral-default"}); err != nil || spec.Process.ApparmorProfile != "mine" {
		t.Errorf("%v", err)
	}
}

// The same is known beforehand, and without an engine that answers.
func TestCheck(t *testing.T) {
	e, err := New(Options{Address: filepath.Join(t.TempDir(), "x.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for want, s := range map[string]engine.Spec{
		"":                {Runtime: "sh", CPUs: 10_000}, // any program will do
		"network":         {Network: "bridge", Runtime: "io.containerd.kata.v2"},
		"runtime":         {Runtime: "corral-no-such-runtime"},
		"runtime network": {Runtime: "corral-no-such-runtime", Network: "team"},
	} {
		lacks, err := e.Check(t.Context(), s)
		var got []string
		for _, l := range lacks {
			got = append(got, string(l.Of))
			if !errors.Is(l.Err, corral.ErrInvalid) || corral.Hint(l.Err) == "" {
				t.Errorf("%v", l.Err)
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%+v: %q, %v", s, got, err)
		}
	}
}

func TestIdentifier(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"corral-default-1a2b", "a..b", "a--b", "a-b", "-", "ü", strings.Repeat("x", 100), strings.Repeat("x", 101), "corral-x.-1", ""} {
		id := identifier(name)
		if len(id) > maxIdentifier || !identifiers().MatchString(id) || identifier(id) != id {
			t.Errorf("%q: %q", name, id)
		}
		if other, taken := seen[id]; taken {
			t.Errorf("%q and %q are both %q", name, other, id)
		}
		seen[id] = name
		if h := engine.Hostname(id); h == "" || len(h) > 63 || strings.ContainsAny(h, "._") || strings.HasSuffix(h, "-") {
			t.Errorf("hostname %q", h)
		}
	}
	if id := identifier("corral-default-1a2b"); id != "corral-default-1a2b" {
		t.Error(id)
	}
}

func TestGVisorScript(t *testing.T) {
	e := &Engine{dir: t.TempDir()}
	program := filepath.Join(t.TempDir(), "it is $HOME runsc")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '[%s]' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		script, err := e.gvisor(program)
		if err != nil || script != filepath.Join(e.dir, "bin", filepath.Base(program)) {
			t.Fatal(script, err)
		}
		out, err := exec.Command(script, "run", "a b").CombinedOutput()
		if want := "[--network=none][--host-uds=open][run][a b]"; err != nil || string(out) != want {
			t.Errorf("%s, %v, want %s", out, err, want)
		}
	}
	if _, err := e.gvisor("/it's/runsc"); err == nil {
		t.Error("a quote went into the script")
	}
}

func TestOptions(t *testing.T) {
	none := func(string) string { return "" }
	if got, want := (Options{}).complete(none), (Options{DefaultAddress, DefaultNamespace, DefaultDir}); got != want {
		t.Errorf("%+v", got)
	}
	env := func(name string) string { return map[string]string{"CONTAINERD_ADDRESS": "unix:///x.sock"}[name] }
	if got := (Options{}).complete(env); got.Address != "/x.sock" {
		t.Errorf("%+v", got)
	}
	if got := (Options{Address: "/y.sock"}).complete(env); got.Address != "/y.sock" {
		t.Errorf("%+v", got)
	}
	if _, err := New(Options{Address: "tcp://host:1"}); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
}

// If containerd does not run, the error comes at once, and says what to do.
func TestNobodyThere(t *testing.T) {
	e, err := New(Options{Address: filepath.Join(t.TempDir(), "x.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for name, err := range map[string]error{
		"ping":   e.Ping(t.Context()),
		"remove": e.Remove(t.Context(), "x"),
	} {
		if !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" || !strings.Contains(err.Error(), "no containerd answers at") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Root has what it needs in the container, and nothing else is looser for it.
func TestSpecOfRoot(t *testing.T) {
	spec, err := ociSpec(engine.Spec{User: "0:0", Root: true}, "box", "/corral/box", "/d", nil, host{})
	if err != nil {
		t.Fatal(err)
	}
	p, c := spec.Process, spec.Process.Capabilities
	for _, set := range [][]string{c.Bounding, c.Effective, c.Permitted} {
		if !slices.Equal(set, engine.RootCapabilities) {
			t.Errorf("capabilities %q", set)
		}
	}
	if len(c.Ambient)+len(c.Inheritable) > 0 || !p.NoNewPrivileges || spec.Root.Readonly || p.User.UID != 0 {
		t.Errorf("capabilities %+v, process %+v, root %+v", c, p, spec.Root)
	}
}
