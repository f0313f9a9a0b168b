package sandbox

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/engine"
)

// disagreements are the vectors that have another answer here, and why. Each is
// looked at all the same: the answer must be the one that is said here.
var disagreements = map[string]string{
	"DA-003": "the command is the end of a text that first puts PATH in place, and the engine's API takes what options say",
	"DA-004": "as DA-003",
	"DA-005": "as DA-003",
	"DA-007": "labels are Corral's; a tmpfs has a size; swap is said beside the memory, and not with it; the number of open files is set by the warden, and of processes by the cgroup; dns and extra hosts are not configured",
	"DA-017": "access none is a private directory that can be written to, as the specification has it: the agent's is not seen at all",
}

// Package boundary has the vectors of docker-args that are refusals.
func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/docker-args.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v struct {
			ID, Fn        string
			Input, Expect json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		seen[v.ID] = true
		check := map[string]func(*testing.T, []byte, []byte){"docker_exec": vectorExec, "docker_create": vectorCreate, "workspace_mount": vectorMount}[v.Fn]
		if check == nil {
			t.Fatalf("%s: nothing is known of %s", v.ID, v.Fn)
		}
		t.Run(v.ID, func(t *testing.T) { check(t, v.Input, v.Expect) })
	}
	if err := lines.Err(); err != nil || len(seen) == 0 {
		t.Fatal(err, len(seen))
	}
	for id := range disagreements {
		if !seen[id] {
			t.Errorf("there is no vector %s", id)
		}
	}
}

// vectorExec compares what a command is started with.
func vectorExec(t *testing.T, input, expect []byte) {
	var in struct {
		Command string
		Env     map[string]string
		TTY     bool
	}
	var want struct{ Argv []string }
	read(t, input, &in)
	read(t, expect, &want)
	l, err := pathenv.Sandbox(pathenv.SandboxOptions{Shell: in.Command, Call: in.Env, Home: Workdir, TTY: in.TTY})
	if err != nil {
		t.Fatal(err)
	}
	sh := want.Argv[len(want.Argv)-3:]
	if len(l.Args) != 3 || !slices.Equal(l.Args[:2], sh[:2]) || !strings.HasSuffix(l.Args[2], sh[2]) {
		t.Errorf("%q, want %q", l.Args, sh)
	}
	for name, value := range in.Env {
		if !slices.Contains(l.Env.Vars, name+"="+value) {
			t.Errorf("no %s=%s in %q", name, value, l.Env.Vars)
		}
	}
}

// vectorCreate compares what can be configured of a container.
func vectorCreate(t *testing.T, input, _ []byte) {
	var in struct {
		Cfg struct {
			User, Network, SeccompProfile, AppArmorProfile string
			PidsLimit                                      int64
			CPUs                                           float64
		}
	}
	read(t, input, &in)
	profile := filepath.Join(t.TempDir(), filepath.Base(in.Cfg.SeccompProfile))
	if err := os.WriteFile(profile, []byte(`{"defaultAction":"SCMP_ACT_ERRNO"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Engine: struct{ engine.Engine }{}, StateDir: t.TempDir(), Isolation: Isolation{User: in.Cfg.User, Network: in.Cfg.Network, Seccomp: profile, AppArmor: in.Cfg.AppArmorProfile},
		Resources: Resources{Pids: in.Cfg.PidsLimit, CPUs: in.Cfg.CPUs, Memory: 512 << 20}, Log: slog.New(slog.DiscardHandler),
	}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	var s engine.Spec
	c.restrict(&s)
	if err := c.adapt(&s, engine.Info{Arch: "amd64", Security: []string{"name=apparmor"}, CPUs: 2}); err != nil {
		t.Fatal(err)
	}
	if s.Network != "" || s.AppArmor != in.Cfg.AppArmorProfile || s.Seccomp != c.profile || s.Pids != 256 || s.CPUs != 1.5 || s.Memory != 512<<20 || s.Rlimits[0].Type != "RLIMIT_CORE" || s.Rlimits[0].Hard != 0 || s.Tmpfs[0].Target != "/tmp" || c.Isolation.User != "1000:1000" {
		t.Errorf("%+v", s)
	}
}

// vectorMount compares how the workspace is mounted.
func vectorMount(t *testing.T, input, expect []byte) {
	var in struct{ Access, WorkspaceDir string }
	var want struct{ Mounts []string }
	read(t, input, &in)
	read(t, expect, &want)
	dir := t.TempDir()
	c := Config{Engine: struct{ engine.Engine }{}, StateDir: t.TempDir(), Workspace: Workspace{Dir: dir, Access: Access(in.Access)}}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if in.Access == "none" {
		if c.Workspace.Dir != "" {
			t.Errorf("%s is seen", c.Workspace.Dir)
		}
		return
	}
	if c.Workspace.Dir != dir || len(want.Mounts) != 1 || !strings.HasPrefix(want.Mounts[0], in.WorkspaceDir+":"+Workdir) {
		t.Errorf("%s, want %q", c.Workspace.Dir, want.Mounts)
	}
}

func read(t *testing.T, data []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}

// The default of processors leaves a machine at least half of its own.
func TestDefaultCPUs(t *testing.T) {
	for _, tt := range []struct {
		set     float64
		machine int
		want    float64
	}{{0, 64, 2}, {0, 4, 2}, {0, 3, 1.5}, {0, 2, 1}, {0, 1, 0.5}, {0, 0, 2}, {2, 2, 2}, {-1, 2, 0}} {
		c := Config{Resources: Resources{CPUs: tt.set}}
		c.completeLimits()
		var s engine.Spec
		c.restrict(&s)
		if err := c.adapt(&s, engine.Info{CPUs: tt.machine}); err != nil || s.CPUs != tt.want {
			t.Errorf("%v of %d: %v, want %v (%v)", tt.set, tt.machine, s.CPUs, tt.want, err)
		}
	}
}

// A container with another seccomp profile is another container.
func TestProfileOfARuntime(t *testing.T) {
	for _, tt := range []struct {
		runtime, arch string
		profile       bool
	}{{"", "amd64", true}, {"runc", "arm64", true}, {"runsc", "amd64", false}, {"", "mips", false}} {
		c := Config{Runtime: tt.runtime}
		var s engine.Spec
		c.restrict(&s)
		if err := c.adapt(&s, engine.Info{Arch: tt.arch}); err != nil || (s.Seccomp != nil) != tt.profile || (s.Profile != "") != (tt.runtime != "runsc") {
			t.Errorf("%+v: %v %q, %v", tt, s.Seccomp, s.Profile, err)
		}
	}
}
