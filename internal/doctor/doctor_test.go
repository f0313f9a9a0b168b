package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/engines"
)

// check compares the status, and checks the rules for every Finding: each text is one
// line, and a problem has a meaning and a fix.
func check(t *testing.T, name string, got Finding, status Severity, words ...string) {
	t.Helper()
	if got.Status != status {
		t.Errorf("%s: %s (%s), want %s", name, got.Status, got.Summary, status)
	}
	all := got.Summary + " " + got.Meaning + " " + got.Fix
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("%s: %q does not have %q", name, all, w)
		}
	}
	if strings.Contains(all, "\n") || got.Summary == "" || got.Name == "" {
		t.Errorf("%s: %+v", name, got)
	}
	if got.Status != OK && got.Meaning == "" && got.Name != "socket" {
		t.Errorf("%s: what %q means is not said", name, got.Summary)
	}
}

func TestCheckRunc(t *testing.T) {
	first, second := "CVE-2024-21626", "CVE-2025-31133"
	for _, tc := range []struct {
		build  RuncBuild
		status Severity
		open   []string
		shut   []string
	}{
		{RuncBuild{"1.1.11", "v1.1.11-0-g4bccb38c"}, Warn, []string{first, second}, nil},
		{RuncBuild{"1.1.12", "v1.1.12-0-g51d5e946"}, Warn, []string{second}, []string{first}},
		{RuncBuild{"1.0.3", ""}, Warn, []string{first, second}, nil},
		{RuncBuild{"1.2.7", ""}, Warn, []string{second}, []string{first}},
		{RuncBuild{"1.2.8", ""}, OK, nil, []string{first, second}},
		{RuncBuild{"1.3.0", ""}, Warn, []string{second}, []string{first}},
		{RuncBuild{"1.3.3", "v1.3.3-0-gd842d771"}, OK, nil, nil},
		{RuncBuild{"1.4.0-rc.2", ""}, Warn, []string{second}, []string{first}},
		{RuncBuild{"1.4.0-rc.3", ""}, OK, nil, nil},
		{RuncBuild{"1.4.0", ""}, OK, nil, nil},
		{RuncBuild{"1.5.1", ""}, OK, nil, nil},
		{RuncBuild{"2.0.0", ""}, OK, nil, nil},
		// Debian 12: the package's version shows the fix, the program's does not.
		{RuncBuild{"1.1.5+ds1", "1.1.5+ds1-1+deb12u1"}, Warn, []string{second, "1.1.5+ds1-1+deb12u1", "a distribution's"}, []string{first}},
		{RuncBuild{"1.1.5+ds1", "1.1.5+ds1-1"}, Warn, []string{first, second, "a distribution's"}, nil},
		{RuncBuild{"1.1.12-0ubuntu2~22.04.1", ""}, Warn, []string{second, "a distribution's"}, []string{first}},
		{RuncBuild{}, Warn, []string{"does not say"}, nil},
		{RuncBuild{"crun", ""}, Warn, []string{"does not say"}, nil},
	} {
		got := Runc(EngineFacts{Build: tc.build})
		check(t, tc.build.Version, got, tc.status, tc.open...)
		for _, cve := range tc.shut {
			if strings.Contains(got.Summary, cve) {
				t.Errorf("%v: %s", tc.build, got.Summary)
			}
		}
		if got.Status != OK && got.Fix == "" {
			t.Errorf("%v: no fix", tc.build)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	ordered := []string{"", "1", "1.1.5", "1.1.12", "1.2.0-rc1", "1.2.0-rc.2", "v1.2.0", "1.2.8+ds1", "1.10.0", "2"}
	for i, a := range ordered {
		for j, b := range ordered {
			got, want := compareVersions(a, b), 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestCheckEngine(t *testing.T) {
	local := EngineFacts{Info: engine.Info{Name: "docker", Version: "28.1", Address: "unix:///s", Arch: "arm64", Local: true}, API: "1.49"}
	check(t, "new", Engine(local), OK, "docker 28.1", "1.49", "linux/arm64", "unix:///s")
	old := local
	old.API = "1.40"
	check(t, "old", Engine(old), Warn, "1.41", "update")
	edge := local
	edge.API = "1.41"
	check(t, "edge", Engine(edge), OK)
	remote := local
	remote.Local = false
	check(t, "remote", Engine(remote), OK, "does not see this machine's files")
}

func TestCheckSocket(t *testing.T) {
	t.Setenv("DOCKER_TLS_VERIFY", "")
	with := func(m fs.FileMode, err error) func(string) (fs.FileMode, error) {
		return func(path string) (fs.FileMode, error) {
			if path != "/s" {
				t.Errorf("looked at %s", path)
			}
			return m, err
		}
	}
	check(t, "usual", Socket("unix:///s", 0, with(0o660, nil)), OK)
	check(t, "user", Socket("unix:///s", 1000, with(0o660, nil)), OK, "as powerful")
	check(t, "open", Socket("unix:///s", 0, with(0o666, nil)), Warn, "chmod o-rw /s")
	check(t, "gone", Socket("unix:///s", 0, with(0, fs.ErrNotExist)), Warn, "does not exist")
	check(t, "plain tcp", Socket("tcp://h:2375", 0, nil), Warn, "TLS")
	check(t, "ssh", Socket("ssh://h", 0, nil), OK)
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	check(t, "tls", Socket("tcp://h:2376", 0, nil), OK)
}

func TestCheckKernel(t *testing.T) {
	f := EngineFacts{Info: engine.Info{Runtimes: []string{"runc", "runsc"}, Default: "runc"}}
	check(t, "runtimes", Runtimes(f, ""), OK, "runc, runsc", "default runc")
	check(t, "wanted", Runtimes(f, "runsc"), OK)
	check(t, "missing", Runtimes(f, "kata"), Fail, "kata", "daemon.json")
	f.RuntimeArgs = map[string][]string{"runsc": {}}
	check(t, "gVisor in messages", Runtimes(f, ""), OK, "gVisor as runsc", "--host-uds=open")
	check(t, "no gVisor", Runtimes(EngineFacts{Info: engine.Info{Runtimes: []string{"runc"}}}, ""), OK, "share the machine's kernel")

	check(t, "v2", Cgroup(EngineFacts{Info: engine.Info{Cgroup: "2"}}), OK)
	check(t, "v1", Cgroup(EngineFacts{Info: engine.Info{Cgroup: "1"}}), Warn, "unified_cgroup_hierarchy")
	check(t, "v?", Cgroup(EngineFacts{}), Warn, "unknown")

	check(t, "builtin", Seccomp(EngineFacts{Info: engine.Info{Security: []string{"name=apparmor", "name=seccomp,profile=builtin"}}}), OK, "builtin")
	check(t, "default", Seccomp(EngineFacts{Info: engine.Info{Security: []string{"name=seccomp"}}}), OK, "default")
	check(t, "unconfined", Seccomp(EngineFacts{Info: engine.Info{Security: []string{"name=seccomp,profile=unconfined"}}}), Warn, "seccomp-profile")
	check(t, "none", Seccomp(EngineFacts{Info: engine.Info{Security: []string{"name=apparmor"}}}), Warn, "no seccomp")

	check(t, "privileges", Privileges(EngineFacts{}), OK, "each time")
	if c := Privileges(EngineFacts{Info: engine.Info{Security: []string{"name=no-new-privileges"}}}); c.Meaning != "" {
		t.Error(c.Meaning)
	}
}

func TestCheckMachine(t *testing.T) {
	found := func(string) ([]byte, error) { return make([]byte, 2_300_000), nil }
	check(t, "warden", Warden("arm64", found), OK, "linux/arm64, 2.2 MiB")
	missing := func(string) ([]byte, error) {
		return nil, corral.Errorf(corral.ErrUnavailable, "build it", "none")
	}
	check(t, "no warden", Warden("arm64", missing), Fail, "none", "build it")

	check(t, "path", LoginPath("/a:/b", time.Second, nil), OK, "/a:/b")
	check(t, "slow", LoginPath("/a", 3*time.Second, nil), Warn, "3s")
	check(t, "silent", LoginPath("", time.Second, corral.Errorf(corral.ErrUnavailable, "mend it", "hangs")), Warn, "hangs", "mend it")
	check(t, "windows", LoginPath("", 0, nil), OK)
}

func TestCheckStateDir(t *testing.T) {
	dir := t.TempDir()
	check(t, "there", StateDir(dir), OK, "can be written")
	check(t, "to come", StateDir(filepath.Join(dir, "a", "b")), OK, "will be made")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	check(t, "file", StateDir(file), Fail, "not a directory", "--state-dir")
	check(t, "below a file", StateDir(filepath.Join(file, "x")), Fail, "--state-dir")
	check(t, "proc", StateDir("/proc/corral"), Fail, "cannot be written")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Which engine is used, why, and which others there are.
func TestCheckEngines(t *testing.T) {
	none := corral.Errorf(corral.ErrUnavailable, "", "none answers.")
	tried := func(docker, containerd, podman error) []EngineTried {
		return []EngineTried{{engines.Docker, docker}, {engines.Containerd, containerd}, {engines.Podman, podman}}
	}
	for _, k := range engines.Kinds() {
		t.Setenv(k.Variable, "")
	}
	check(t, "all", Engines(engines.Auto, tried(nil, nil, nil)), OK, "docker is used, the first", "containerd answers, too.", "podman answers, too.")
	check(t, "no Docker", Engines(engines.Auto, tried(none, nil, nil)), OK, "containerd is used, the first", "Of docker: none answers.", "podman answers, too.")
	check(t, "Podman", Engines(engines.Auto, tried(none, none, nil)), OK, "podman is used, the first", "Of docker: ", "Of containerd: ")
	check(t, "none", Engines(engines.Auto, tried(none, none, none)), OK, "docker is used, since none answers")
	check(t, "configured", Engines(engines.Podman, tried(nil, nil, nil)), OK, "podman is used, as it is configured", "docker answers, too.")
	for _, k := range slices.Backward(engines.Kinds()) { // the first of several counts
		t.Setenv(k.Variable, "unix:///x.sock")
		check(t, k.Name, Engines(engines.Auto, tried(nil, nil, nil)), OK, k.Name+" is used, since "+k.Variable)
		engine, err := engines.Open(t.Context(), engines.Auto)
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "/x.sock") {
			t.Errorf("%s: %v", k.Name, err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
}

// fakeImages is an images.Engine that has one image, or fails.
type fakeImages struct {
	images.Engine
	list  []images.EngineImage
	image images.EngineImage
	err   error
}

func (f fakeImages) Images(context.Context, string) ([]images.EngineImage, error) {
	return f.list, nil
}

func (f fakeImages) LastStep(context.Context, string) (string, error) {
	return "built by Corral from recipe " + f.list[0].Labels[images.LabelRecipe], nil
}

func (f fakeImages) Image(context.Context, string) (images.EngineImage, error) {
	return f.image, f.err
}

func TestCheckImage(t *testing.T) {
	old := fakeImages{image: images.EngineImage{Labels: map[string]string{images.LabelImage: images.Busybox, images.LabelRecipe: "x"}}}
	ctx := t.Context()
	check(t, "foreign", Image(ctx, "debian:12", fakeImages{image: images.EngineImage{Size: 5e6}}), OK, "debian:12, 4.8 MiB")
	check(t, "missing", Image(ctx, "debian:12", fakeImages{err: cerrdefs.ErrNotFound}), Warn, "corral images ensure debian:12")
	check(t, "stale", Image(ctx, images.Busybox, old), Warn, "older recipe")
	check(t, "built on it", Image(ctx, "mine:1", old), OK, "mine:1")
	check(t, "broken", Image(ctx, "debian:12", fakeImages{err: errors.New("boom")}), Fail, "boom")
}

// An engine that hangs does not take the others' time.
func TestHungEngine(t *testing.T) {
	dir := t.TempDir()
	hung, err := net.Listen("unix", filepath.Join(dir, "docker.sock")) // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	well, err := net.Listen("unix", filepath.Join(dir, "podman.sock"))
	if err != nil {
		t.Fatal(err)
	}
	answers := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("API-Version", "1.41") })}
	go func() { _ = answers.Serve(well) }() // until it is closed
	defer answers.Close()
	t.Setenv("DOCKER_HOST", "unix://"+hung.Addr().String())
	t.Setenv("CONTAINERD_ADDRESS", filepath.Join(dir, "none.sock"))
	t.Setenv("CONTAINER_HOST", "unix://"+well.Addr().String())
	for _, e := range tryEngines(t.Context(), 200*time.Millisecond) {
		if (e.Err == nil) != (e.Name == engines.Podman) {
			t.Errorf("%s: %v", e.Name, e.Err)
		}
	}
}
