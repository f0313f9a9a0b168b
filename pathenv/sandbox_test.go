package pathenv

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

func TestSandbox(t *testing.T) {
	tests := []struct {
		name string
		opts SandboxOptions
		args []string
		vars []string // beside LANG, HOME and the markers
	}{
		{"shell, nothing to prepend", SandboxOptions{Shell: "ls"},
			[]string{"/bin/sh", "-lc", "ls"},
			[]string{"PATH=" + ContainerPath}},
		{"shell, pathPrepend", SandboxOptions{Shell: "ls", PathPrepend: []string{"/a b", "$x"}, Image: []string{"PATH=/bin"}},
			[]string{"/bin/sh", "-lc", prependPrefix + "ls"},
			[]string{"CORRAL_PREPEND_PATH=/a b:$x", "PATH=/a b:$x:/bin"}},
		{"shell, every source of PATH", SandboxOptions{Shell: "ls", PathPrepend: []string{"/p"}, Call: map[string]string{"PATH": "/c:/p:/x "}, Config: map[string]string{"PATH": "/k::/c"}, Image: []string{"PATH=/bin:/k"}},
			[]string{"/bin/sh", "-lc", prependPrefix + "ls"},
			[]string{"CORRAL_PREPEND_PATH=/p:/c:/x :/k", "PATH=/p:/c:/x :/k:/bin"}},
		{"blank PATH asked for", SandboxOptions{Shell: "ls", Call: map[string]string{"PATH": ": :"}, PathPrepend: []string{" "}},
			[]string{"/bin/sh", "-lc", "ls"},
			[]string{"PATH=" + ContainerPath}},
		{"program, every source of PATH", SandboxOptions{Args: []string{"ls", "-l"}, PathPrepend: []string{"/p"}, Call: map[string]string{"PATH": "/c"}},
			[]string{"ls", "-l"},
			[]string{"PATH=/p:/c:" + ContainerPath}},
		{"the call wins over the configuration", SandboxOptions{Args: []string{"ls"}, Config: map[string]string{"A": "1", "B": "1"}, Call: map[string]string{"A": "2"}},
			[]string{"ls"},
			[]string{"A=2", "B=1", "PATH=" + ContainerPath}},
		{"its own boundary", SandboxOptions{Args: []string{"ls"}, Call: map[string]string{"LD_PRELOAD": "/x.so", "PYTHONPATH": "/p", "HTTP_PROXY": "p", "MY_TOKEN": "t"}},
			[]string{"ls"},
			[]string{"HTTP_PROXY=p", "LD_PRELOAD=/x.so", "MY_TOKEN=t", "PATH=" + ContainerPath, "PYTHONPATH=/p"}},
		{"terminal", SandboxOptions{Args: []string{"ls"}, TTY: true},
			[]string{"ls"},
			[]string{"PATH=" + ContainerPath, "TERM=xterm-256color"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			launch := must(Sandbox(test.opts))
			if diff := cmp.Diff(test.args, launch.Args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			want := append(slices.Clone(test.vars), "CORRAL_SHELL=exec", "OPENCLAW_SHELL=exec", "HOME=/tmp", "LANG=C.UTF-8")
			slices.Sort(want)
			if diff := cmp.Diff(want, launch.Env.Vars); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSandboxOrigins(t *testing.T) {
	launch := must(Sandbox(SandboxOptions{
		Shell: "ls", PathPrepend: []string{"/p"}, Config: map[string]string{"PATH": "/k"},
		Call: map[string]string{"PATH": "/c:/k"}, Image: []string{"PATH=/bin:/p"},
	}))
	want := []PathEntry{{"/p", OriginPrepend}, {"/c", OriginCall}, {"/k", OriginCall}, {"/bin", OriginImage}}
	if diff := cmp.Diff(want, launch.Env.Path); diff != "" {
		t.Errorf("PATH (-want +got):\n%s", diff)
	}
}

func TestSandboxConfiguration(t *testing.T) {
	launch := must(Sandbox(SandboxOptions{
		Args: []string{"ls"}, Strict: true, Home: "/workspace",
		Config: map[string]string{
			"A": "1", "LC_ALL": "C", "TZ": "UTC", "HOME": "/h", "A_TOKEN": "t", "Kept_Token": "t", "WANTED": "w",
			"bad name": "x", "N": "\x00", "CORRAL_PREPEND_PATH": "/x", "LANG": "C",
		},
		Keep: []string{"KEPT_TOKEN", "wanted"},
	}))
	want := []string{"CORRAL_SHELL=exec", "HOME=/h", "Kept_Token=t", "LANG=C", "LC_ALL=C", "OPENCLAW_SHELL=exec", "PATH=" + ContainerPath, "TZ=UTC", "WANTED=w"}
	if diff := cmp.Diff(want, launch.Env.Vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	wantDropped := []Dropped{
		{"A", SourceConfig, ReasonStrict},
		{"A_TOKEN", SourceConfig, ReasonCredential},
		{"CORRAL_PREPEND_PATH", SourceConfig, ReasonReserved},
		{"N", SourceConfig, ReasonMalformed},
		{"bad name", SourceConfig, ReasonMalformed},
	}
	if diff := cmp.Diff(wantDropped, launch.Env.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

func TestSandboxImage(t *testing.T) {
	launch := must(Sandbox(SandboxOptions{
		Args: []string{"java"}, Home: "/workspace",
		Image: []string{
			"PATH=/opt/java/bin:/usr/bin:/opt/tools", "JAVA_HOME=/opt/java", "LANG=C", "LD_PRELOAD=/x.so", "A=image", "B=image", "C=image", "EMPTY=",
			"HOME=/root", // of another user
			"DB_PASSWORD=p", "NPM_TOKEN=t", "CORRAL_IMAGE_PATH_BEFORE=/x", "bad name=x", "none",
		},
		Config: map[string]string{"B": "config", "C": "config"}, Call: map[string]string{"C": "call"}, Keep: []string{"NPM_TOKEN"},
	}))
	want := []string{
		"A=image", "B=config", "C=call", "CORRAL_SHELL=exec", "EMPTY=", "HOME=/workspace", "JAVA_HOME=/opt/java", "LANG=C", "LD_PRELOAD=/x.so",
		"NPM_TOKEN=t", "OPENCLAW_SHELL=exec", "PATH=/opt/java/bin:/usr/bin:/opt/tools", "none=",
	}
	if diff := cmp.Diff(want, launch.Env.Vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	wantDropped := []Dropped{
		{"CORRAL_IMAGE_PATH_BEFORE", SourceImage, ReasonReserved},
		{"DB_PASSWORD", SourceImage, ReasonCredential},
		{"bad name", SourceImage, ReasonMalformed},
	}
	if diff := cmp.Diff(wantDropped, launch.Env.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

func TestSandboxRefuses(t *testing.T) {
	tests := []struct {
		name string
		opts SandboxOptions
		kind error
		want string
	}{
		{"internal variable", SandboxOptions{Shell: "x", Call: map[string]string{"CORRAL_PREPEND_PATH": "/x", "a-b": ""}}, corral.ErrDenied, `in the sandbox: not allowed: CORRAL_PREPEND_PATH; not names of variables: "a-b"`},
		{"NUL", SandboxOptions{Shell: "x", Call: map[string]string{"A": "\x00"}}, corral.ErrDenied, "with a NUL byte in the value: A"},
		{"nothing to run", SandboxOptions{}, corral.ErrInvalid, "either shell text or arguments"},
		{"two things to run", SandboxOptions{Shell: "x", Args: []string{"x"}}, corral.ErrInvalid, "either shell text or arguments"},
		{"two directories in one", SandboxOptions{Shell: "x", PathPrepend: []string{"/a:/b"}}, corral.ErrInvalid, `pathPrepend[0] is "/a:/b"`},
	}
	for _, test := range tests {
		if _, err := Sandbox(test.opts); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %v with %q", test.name, err, test.kind, test.want)
		}
	}
}
