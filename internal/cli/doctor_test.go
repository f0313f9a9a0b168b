package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/sandbox/engines"
)

// check compares the status, and says what is not as it should be of every
// finding: one line each, and never a fault without a meaning and a way out.
func check(t *testing.T, name string, got finding, status severity, words ...string) {
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
	if got.Status != levelOK && got.Meaning == "" && got.Name != "socket" {
		t.Errorf("%s: what %q means is not said", name, got.Summary)
	}
}

func TestCheckRunc(t *testing.T) {
	first, second := "CVE-2024-21626", "CVE-2025-31133"
	for _, tc := range []struct {
		build  runcBuild
		status severity
		open   []string
		shut   []string
	}{
		{runcBuild{"1.1.11", "v1.1.11-0-g4bccb38c"}, levelWarn, []string{first, second}, nil},
		{runcBuild{"1.1.12", "v1.1.12-0-g51d5e946"}, levelWarn, []string{second}, []string{first}},
		{runcBuild{"1.0.3", ""}, levelWarn, []string{first, second}, nil},
		{runcBuild{"1.2.7", ""}, levelWarn, []string{second}, []string{first}},
		{runcBuild{"1.2.8", ""}, levelOK, nil, []string{first, second}},
		{runcBuild{"1.3.0", ""}, levelWarn, []string{second}, []string{first}},
		{runcBuild{"1.3.3", "v1.3.3-0-gd842d771"}, levelOK, nil, nil},
		{runcBuild{"1.4.0-rc.2", ""}, levelWarn, []string{second}, []string{first}},
		{runcBuild{"1.4.0-rc.3", ""}, levelOK, nil, nil},
		{runcBuild{"1.4.0", ""}, levelOK, nil, nil},
		{runcBuild{"1.5.1", ""}, levelOK, nil, nil},
		{runcBuild{"2.0.0", ""}, levelOK, nil, nil},
		// Debian 12: the number says less than the package.
		{runcBuild{"1.1.5+ds1", "1.1.5+ds1-1+deb12u1"}, levelWarn, []string{second, "1.1.5+ds1-1+deb12u1", "a distribution's"}, []string{first}},
		{runcBuild{"1.1.5+ds1", "1.1.5+ds1-1"}, levelWarn, []string{first, second, "a distribution's"}, nil},
		{runcBuild{"1.1.12-0ubuntu2~22.04.1", ""}, levelWarn, []string{second, "a distribution's"}, []string{first}},
		{runcBuild{}, levelWarn, []string{"does not say"}, nil},
		{runcBuild{"crun", ""}, levelWarn, []string{"does not say"}, nil},
	} {
		got := checkRunc(daemon.EngineFacts{Runc: daemon.RuncBuild(tc.build)})
		check(t, tc.build.Version, got, tc.status, tc.open...)
		for _, cve := range tc.shut {
			if strings.Contains(got.Summary, cve) {
				t.Errorf("%v: %s", tc.build, got.Summary)
			}
		}
		if got.Status != levelOK && got.Fix == "" {
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
	local := daemon.EngineFacts{Name: "docker", Version: "28.1", API: "1.49", Address: "unix:///s", Arch: "arm64", Local: true}
	check(t, "new", checkEngine(local), levelOK, "docker 28.1", "1.49", "linux/arm64", "unix:///s")
	old := local
	old.API = "1.40"
	check(t, "old", checkEngine(old), levelWarn, "1.41", "update")
	edge := local
	edge.API = "1.41"
	check(t, "edge", checkEngine(edge), levelOK)
	remote := local
	remote.Local = false
	check(t, "remote", checkEngine(remote), levelOK, "does not see this machine's files")
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
	check(t, "usual", checkSocket("unix:///s", 0, with(0o660, nil)), levelOK)
	check(t, "user", checkSocket("unix:///s", 1000, with(0o660, nil)), levelOK, "as powerful")
	check(t, "open", checkSocket("unix:///s", 0, with(0o666, nil)), levelWarn, "chmod o-rw /s")
	check(t, "gone", checkSocket("unix:///s", 0, with(0, fs.ErrNotExist)), levelWarn, "does not exist")
	check(t, "plain tcp", checkSocket("tcp://h:2375", 0, nil), levelWarn, "TLS")
	check(t, "ssh", checkSocket("ssh://h", 0, nil), levelOK)
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	check(t, "tls", checkSocket("tcp://h:2376", 0, nil), levelOK)
}

func TestCheckKernel(t *testing.T) {
	f := daemon.EngineFacts{Runtimes: []string{"runc", "runsc"}, DefaultRuntime: "runc"}
	check(t, "runtimes", checkRuntimes(f, ""), levelOK, "runc, runsc", "default runc")
	check(t, "wanted", checkRuntimes(f, "runsc"), levelOK)
	check(t, "missing", checkRuntimes(f, "kata"), levelFail, "kata", "daemon.json")
	check(t, "no gVisor", checkRuntimes(daemon.EngineFacts{Runtimes: []string{"runc"}}, ""), levelOK, "share the machine's kernel")

	check(t, "v2", checkCgroup(daemon.EngineFacts{Cgroup: "2"}), levelOK)
	check(t, "v1", checkCgroup(daemon.EngineFacts{Cgroup: "1"}), levelWarn, "unified_cgroup_hierarchy")
	check(t, "v?", checkCgroup(daemon.EngineFacts{}), levelWarn, "unknown")

	check(t, "builtin", checkSeccomp(daemon.EngineFacts{Security: []string{"name=apparmor", "name=seccomp,profile=builtin"}}), levelOK, "builtin")
	check(t, "default", checkSeccomp(daemon.EngineFacts{Security: []string{"name=seccomp"}}), levelOK, "default")
	check(t, "unconfined", checkSeccomp(daemon.EngineFacts{Security: []string{"name=seccomp,profile=unconfined"}}), levelWarn, "seccomp-profile")
	check(t, "none", checkSeccomp(daemon.EngineFacts{Security: []string{"name=apparmor"}}), levelWarn, "no seccomp")

	check(t, "privileges", checkPrivileges(daemon.EngineFacts{}), levelOK, "each time")
	if c := checkPrivileges(daemon.EngineFacts{Security: []string{"name=no-new-privileges"}}); c.Meaning != "" {
		t.Error(c.Meaning)
	}
}

func TestCheckMachine(t *testing.T) {
	found := func(string) ([]byte, error) { return make([]byte, 2_300_000), nil }
	check(t, "warden", checkWarden("arm64", found), levelOK, "linux/arm64, 2.2 MiB")
	missing := func(string) ([]byte, error) {
		return nil, corral.Errorf(corral.ErrUnavailable, "build it", "none")
	}
	check(t, "no warden", checkWarden("arm64", missing), levelFail, "none", "build it")

	check(t, "path", checkLoginPath("/a:/b", time.Second, nil), levelOK, "/a:/b")
	check(t, "slow", checkLoginPath("/a", 3*time.Second, nil), levelWarn, "3s")
	check(t, "silent", checkLoginPath("", time.Second, corral.Errorf(corral.ErrUnavailable, "mend it", "hangs")), levelWarn, "hangs", "mend it")
	check(t, "windows", checkLoginPath("", 0, nil), levelOK)

	check(t, "off", checkMode(daemon.ModeOff, false), levelWarn, "config set sandbox.mode all", "CORRAL_SANDBOX=all", "no container")
	check(t, "off, required", checkMode(daemon.ModeOff, true), levelWarn, "refused")
	check(t, "all", checkMode(daemon.ModeAll, false), levelOK)
	check(t, "required", checkMode(daemon.ModeRequired, false), levelOK)
}

func TestCheckStateDir(t *testing.T) {
	dir := t.TempDir()
	check(t, "there", checkStateDir(dir), levelOK, "can be written")
	check(t, "to come", checkStateDir(filepath.Join(dir, "a", "b")), levelOK, "will be made")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	check(t, "file", checkStateDir(file), levelFail, "not a directory", "--state-dir")
	check(t, "below a file", checkStateDir(filepath.Join(file, "x")), levelFail, "--state-dir")
	check(t, "proc", checkStateDir("/proc/corral"), levelFail, "cannot be written")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Which engine is used, why, and what there is beside it.
func TestCheckEngines(t *testing.T) {
	none := corral.Errorf(corral.ErrUnavailable, "", "none answers.")
	tried := func(docker, containerd, podman error) []engineTried {
		return []engineTried{{engines.Docker, docker}, {engines.Containerd, containerd}, {engines.Podman, podman}}
	}
	for _, k := range engines.Kinds() {
		t.Setenv(k.Variable, "")
	}
	check(t, "all", checkEngines(engines.Auto, tried(nil, nil, nil)), levelOK, "docker is used, the first", "containerd answers, too.", "podman answers, too.")
	check(t, "no Docker", checkEngines(engines.Auto, tried(none, nil, nil)), levelOK, "containerd is used, the first", "Of docker: none answers.", "podman answers, too.")
	check(t, "Podman", checkEngines(engines.Auto, tried(none, none, nil)), levelOK, "podman is used, the first", "Of docker: ", "Of containerd: ")
	check(t, "none", checkEngines(engines.Auto, tried(none, none, none)), levelOK, "docker is used, since none answers")
	check(t, "configured", checkEngines(engines.Podman, tried(nil, nil, nil)), levelOK, "podman is used, as it is configured", "docker answers, too.")
	for _, k := range slices.Backward(engines.Kinds()) { // the first of several counts
		t.Setenv(k.Variable, "unix:///x.sock")
		check(t, k.Name, checkEngines(engines.Auto, tried(nil, nil, nil)), levelOK, k.Name+" is used, since "+k.Variable)
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

func (f fakeImages) Image(context.Context, string) (images.EngineImage, error) {
	return f.image, f.err
}

func TestCheckImage(t *testing.T) {
	old := fakeImages{image: images.EngineImage{Labels: map[string]string{images.LabelRecipe: "x"}}}
	ctx := t.Context()
	check(t, "foreign", checkImage(ctx, "debian:12", fakeImages{image: images.EngineImage{Size: 5e6}}), levelOK, "debian:12, 4.8 MiB")
	check(t, "missing", checkImage(ctx, "debian:12", fakeImages{err: cerrdefs.ErrNotFound}), levelWarn, "corral images ensure debian:12")
	check(t, "stale", checkImage(ctx, images.Busybox, old), levelWarn, "older recipe")
	check(t, "broken", checkImage(ctx, "debian:12", fakeImages{err: errors.New("boom")}), levelFail, "boom")
}

func TestDiagnosis(t *testing.T) {
	for want, of := range map[severity][]severity{
		levelOK: {levelOK, levelOK}, levelWarn: {levelOK, levelWarn, levelOK}, levelFail: {levelWarn, levelFail, levelWarn},
	} {
		var checks []finding
		for _, s := range of {
			checks = append(checks, finding{Status: s})
		}
		if got := newDiagnosis(checks).Status; got != want {
			t.Errorf("%v: %s", of, got)
		}
	}
}
