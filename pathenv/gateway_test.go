package pathenv

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

func TestGatewayPath(t *testing.T) {
	tests := []struct {
		name string
		opts GatewayOptions
		want []PathEntry
	}{
		{"nothing known", GatewayOptions{},
			[]PathEntry{{"/usr/local/bin", OriginDaemon}, {"/usr/bin", OriginDaemon}, {"/bin", OriginDaemon}}},
		{"pathPrepend, login, daemon", GatewayOptions{Inherited: []string{"PATH=/bin:/login"}, LoginPath: "/login:/opt:/pre", PathPrepend: []string{"/pre", "/opt "}},
			[]PathEntry{{"/pre", OriginPrepend}, {"/opt ", OriginPrepend}, {"/login", OriginLogin}, {"/opt", OriginLogin}, {"/bin", OriginDaemon}}},
		{"blank PATH inherited", GatewayOptions{Inherited: []string{"PATH= :"}, GOOS: "darwin"},
			[]PathEntry{{"/opt/homebrew/bin", OriginDaemon}, {"/usr/local/bin", OriginDaemon}, {"/usr/bin", OriginDaemon}, {"/bin", OriginDaemon}}},
		{"no current directory", GatewayOptions{Inherited: []string{"PATH=:/bin::"}, LoginPath: ":/l:", PathPrepend: []string{"", " "}},
			[]PathEntry{{"/l", OriginLogin}, {"/bin", OriginDaemon}}},
		{"replaced", GatewayOptions{Inherited: []string{"PATH=/bin"}, LoginPath: "/l", PathPrepend: []string{"/pre"}, EnvPath: EnvPathReplace, Call: map[string]string{"PATH": "/mine::/pre"}},
			[]PathEntry{{"/pre", OriginPrepend}, {"/mine", OriginCall}}},
		{"replaced by nothing", GatewayOptions{Inherited: []string{"PATH=/bin"}, LoginPath: "/l", EnvPath: EnvPathReplace, Call: map[string]string{"PATH": " :"}},
			[]PathEntry{{"/l", OriginLogin}, {"/bin", OriginDaemon}}},
		{"may be replaced, is not", GatewayOptions{Inherited: []string{"PATH=/bin"}, LoginPath: "/l", EnvPath: EnvPathReplace},
			[]PathEntry{{"/l", OriginLogin}, {"/bin", OriginDaemon}}},
		{"windows", GatewayOptions{Inherited: []string{`Path=C:\W;C:\W\S`}, PathPrepend: []string{`D:\t`}, GOOS: "windows"},
			[]PathEntry{{`D:\t`, OriginPrepend}, {`C:\W`, OriginDaemon}, {`C:\W\S`, OriginDaemon}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.opts.GOOS == "" {
				test.opts.GOOS = "linux"
			}
			env := must(Gateway(test.opts))
			if diff := cmp.Diff(test.want, env.Path); diff != "" {
				t.Errorf("PATH (-want +got):\n%s", diff)
			}
			name := "PATH"
			if test.opts.GOOS == "windows" {
				name = "Path"
			}
			got, _ := env.Lookup(name)
			if want := strings.Join(env.PathDirs(), listSeparator(test.opts.GOOS)); got != want {
				t.Errorf("%s=%s, want %s", name, got, want)
			}
		})
	}
}

func TestGatewayRefuses(t *testing.T) {
	tests := []struct {
		name string
		call map[string]string
		mode EnvPath
		goos string
		want string
	}{
		{"PATH", map[string]string{"PATH": "/x"}, "", "linux", "not allowed: PATH"},
		{"an empty PATH", map[string]string{"PATH": ""}, EnvPathReject, "linux", "not allowed: PATH"},
		{"path of zsh", map[string]string{"path": "/x"}, "", "linux", "not allowed: path"},
		{"path of zsh, replace", map[string]string{"path": "/x"}, EnvPathReplace, "linux", "not allowed: path"},
		{"loader", map[string]string{"ld_audit": "x", "DYLD_INSERT_LIBRARIES": "x", "BASH_FUNC_ls%%": "x"}, "", "linux", `not allowed: DYLD_INSERT_LIBRARIES, ld_audit; not names of variables: "BASH_FUNC_ls%%"`},
		{"hooks", map[string]string{"FOO": "kept", "NODE_OPTIONS": "x", "Git_Ssh_Command": "x", "bash_env": "x", "PYTHONPATH": "x"}, "", "linux", "not allowed: bash_env, Git_Ssh_Command, NODE_OPTIONS, PYTHONPATH"},
		{"redirects", map[string]string{"HOME": "/x", "HTTPS_PROXY": "x", "npm_config_script_shell": "x", "GIT_CONFIG_COUNT": "1"}, "", "linux", "not allowed: GIT_CONFIG_COUNT, HOME, HTTPS_PROXY, npm_config_script_shell"},
		{"replace lets PATH in alone", map[string]string{"PATH": "/x", "LD_PRELOAD": "x"}, EnvPathReplace, "linux", "not allowed: LD_PRELOAD"},
		{"the internal variable", map[string]string{"corral_prepend_path": "/x"}, "", "linux", "not allowed: corral_prepend_path"},
		{"names that are none", map[string]string{"": "x", "a b": "x", "1A": "x", "é": "x", "A\nB": "x"}, "", "linux", `not names of variables: "", "1A", "A\nB", "a b", "é"`},
		{"NUL", map[string]string{"A": "x\x00"}, "", "linux", "with a NUL byte in the value: A"},
		{"Path on Windows", map[string]string{"Path": "x"}, "", "windows", "not allowed: Path"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env, err := Gateway(GatewayOptions{Call: test.call, EnvPath: test.mode, GOOS: test.goos})
			if !errors.Is(err, corral.ErrDenied) || len(env.Vars) > 0 {
				t.Fatalf("Gateway = %v, %v; want ErrDenied", env, err)
			}
			if want := "cannot set the call's env on the gateway: " + test.want; err.Error() != want {
				t.Errorf("error is\n%s, want\n%s", err, want)
			}
			if corral.Hint(err) == "" {
				t.Error("no hint")
			}
		})
	}
}

func TestGatewayInherits(t *testing.T) {
	env := must(Gateway(GatewayOptions{
		GOOS: "linux",
		Inherited: []string{
			"", "JUNK", "=junk", "PATH=/bin", "TWICE=1", "TWICE=2", "EMPTY=", "odd-name=1",
			"HOME=/h", "http_proxy=p", "GIT_CONFIG_GLOBAL=/g", "TF_VAR_region=eu",
			"LD_PRELOAD=/x.so", "BASH_FUNC_ls%%=() { :; }", "Node_Options=x", "SHELL=/bin/zsh",
			"EDITOR=vi", "GOFLAGS=-x", "VIRTUAL_ENV=/v",
			"OPENAI_API_KEY=k", "my_token=t", "PGPASSWORD=p", "DEPLOY_PRIVATE_KEY=k", "CLIENT_SECRET=s", "DATABASE_URL=u", "TF_VAR_db_password=p",
			"KEPT_TOKEN=t", "LD_LIBRARY_PATH=/opt/oracle", "CORRAL_PREPEND_PATH=/x",
		},
		Keep: []string{"kept_token", "LD_LIBRARY_PATH", "CORRAL_PREPEND_PATH"},
		Call: map[string]string{"A": "1", "GITHUB_TOKEN": "from the caller", "CORRAL_SHELL": "no"},
	}))
	want := []string{
		"A=1", "CORRAL_SHELL=exec", "EMPTY=", "GITHUB_TOKEN=from the caller", "GIT_CONFIG_GLOBAL=/g", "HOME=/h",
		"KEPT_TOKEN=t", "LD_LIBRARY_PATH=/opt/oracle", "OPENCLAW_SHELL=exec", "PATH=/bin", "TF_VAR_region=eu", "TWICE=2",
		"http_proxy=p", "odd-name=1",
	}
	if diff := cmp.Diff(want, env.Vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	dropped := func(source Source, reason Reason, names ...string) []Dropped {
		var list []Dropped
		for _, name := range names {
			list = append(list, Dropped{name, source, reason})
		}
		return list
	}
	wantDropped := slices.Concat(
		dropped(SourceCall, ReasonReserved, "CORRAL_SHELL"),
		dropped(SourceDaemon, ReasonMalformed, "", "JUNK"),
		dropped(SourceDaemon, ReasonHook, "BASH_FUNC_ls%%", "LD_PRELOAD", "Node_Options", "SHELL"),
		dropped(SourceDaemon, ReasonRedirect, "EDITOR", "GOFLAGS", "VIRTUAL_ENV"),
		dropped(SourceDaemon, ReasonCredential, "CLIENT_SECRET", "DATABASE_URL", "DEPLOY_PRIVATE_KEY", "OPENAI_API_KEY", "PGPASSWORD", "TF_VAR_db_password", "my_token"),
		dropped(SourceDaemon, ReasonReserved, "CORRAL_PREPEND_PATH"),
	)
	order := func(list []Dropped) []Dropped {
		slices.SortStableFunc(list, func(a, b Dropped) int {
			return strings.Compare(string(a.Source)+a.Name, string(b.Source)+b.Name)
		})
		return list
	}
	if diff := cmp.Diff(order(wantDropped), env.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	warnings := strings.Join(env.Warnings(), "\n")
	for _, d := range env.Dropped {
		if !strings.Contains(warnings, d.Name) {
			t.Errorf("no warning names %s:\n%s", d.Name, warnings)
		}
	}
	if n := len(env.Warnings()); n != 6 {
		t.Errorf("%d warnings, want one for each of 6 sources and reasons:\n%s", n, warnings)
	}
}

func TestGatewayWindowsNames(t *testing.T) {
	env := must(Gateway(GatewayOptions{
		GOOS:      "windows",
		Inherited: []string{`=C:=C:\work`, `ProgramFiles(x86)=C:\P`, "Temp=a", "Path=x"},
		Call:      map[string]string{"TEMP": "b"},
	}))
	want := []string{`=C:=C:\work`, "CORRAL_SHELL=exec", "OPENCLAW_SHELL=exec", "Path=x", `ProgramFiles(x86)=C:\P`, "Temp=b"}
	if diff := cmp.Diff(want, env.Vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestMarkersAndTerminal(t *testing.T) {
	for profile, want := range map[Profile][]string{
		"":           {"CORRAL_SHELL=exec", "OPENCLAW_SHELL=exec"},
		ProfileExec:  {"CORRAL_SHELL=exec", "OPENCLAW_SHELL=exec"},
		ProfileQwen:  {"CORRAL_SHELL=exec", "QWEN_CODE=1"},
		ProfileAsimi: {"ASIMI_CLI=1", "CORRAL_SHELL=exec"},
	} {
		gateway := must(Gateway(GatewayOptions{Inherited: []string{"PATH=/bin"}, Profile: profile, GOOS: "linux"}))
		if got := slices.DeleteFunc(gateway.Vars, func(kv string) bool { return kv == "PATH=/bin" }); !slices.Equal(got, want) {
			t.Errorf("profile %q on the gateway: %q, want %q", profile, got, want)
		}
		sandbox := must(Sandbox(SandboxOptions{Shell: "x", Profile: profile})).Env
		node := must(Node(NodeOptions{Profile: profile, GOOS: "linux"}))
		for _, kv := range want {
			if !slices.Contains(sandbox.Vars, kv) || !slices.Contains(node.Vars, kv) {
				t.Errorf("profile %q: no %s in %q or %q", profile, kv, sandbox.Vars, node.Vars)
			}
		}
	}
	if _, err := Gateway(GatewayOptions{Profile: "other"}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("an unknown profile: %v, want ErrInvalid", err)
	}
	if _, err := Gateway(GatewayOptions{EnvPath: "other"}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("an unknown envPath mode: %v, want ErrInvalid", err)
	}
	if _, err := Gateway(GatewayOptions{PathPrepend: []string{"/a:/b"}, GOOS: "linux"}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("two directories in one: %v, want ErrInvalid", err)
	}
	for inherited, want := range map[string]string{"": "xterm-256color", "TERM=dumb": "dumb"} {
		env := must(Gateway(GatewayOptions{Inherited: []string{inherited}, TTY: true, GOOS: "linux"}))
		if got, _ := env.Lookup("TERM"); got != want {
			t.Errorf("TERM on a terminal = %q, want %q", got, want)
		}
	}
}

// FuzzGateway checks the invariants of Gateway for any environment and any call.
func FuzzGateway(f *testing.F) {
	f.Add("PATH=/bin\nA=1\nMY_TOKEN=t", "B", "2", "/login:/bin", "/pre", false)
	f.Add("Path=/bin\nLD_PRELOAD=x", "PATH", "/x::/y", "", "", true)
	f.Add("=\n==\nA", "é", "\x00", ":", " ", false)
	f.Fuzz(func(t *testing.T, inherited, name, value, login, prepend string, replace bool) {
		for _, goos := range []string{"linux", "windows"} {
			o := GatewayOptions{Inherited: strings.Split(inherited, "\n"), Call: map[string]string{name: value}, LoginPath: login, PathPrepend: []string{prepend}, GOOS: goos}
			if replace {
				o.EnvPath = EnvPathReplace
			}
			env, err := Gateway(o)
			if err != nil {
				if !errors.Is(err, corral.ErrDenied) && !errors.Is(err, corral.ErrInvalid) {
					t.Fatalf("%v is of no kind", err)
				}
				if strings.Contains(err.Error(), "\n") {
					t.Fatalf("%q is not one line", err)
				}
				continue
			}
			if isHook(name) || redirects[strings.ToUpper(name)] || isPath(name) && !replace {
				t.Fatalf("%s: took %q from the call", goos, name)
			}
			if !slices.IsSorted(env.Vars) {
				t.Fatalf("not sorted: %q", env.Vars)
			}
			seen := make(map[string]bool)
			for _, kv := range env.Vars {
				n, _, ok := cutVariable(kv, goos)
				if !ok || seen[n] {
					t.Fatalf("%q is malformed or there twice, in %q", kv, env.Vars)
				}
				seen[n] = true
				if isHook(n) || isCredential(n) && n != name {
					t.Fatalf("%q got through", kv)
				}
			}
			dirs := env.PathDirs()
			if len(dirs) == 0 || !slices.Equal(Merge(dirs), dirs) {
				t.Fatalf("PATH is %q", dirs)
			}
			again := must(Gateway(o))
			if diff := cmp.Diff(env, again); diff != "" {
				t.Fatalf("the same twice differs:\n%s", diff)
			}
		}
	})
}

// A call may not set variables that give programs options or files to write to; the
// account may have them.
func TestGatewaySteers(t *testing.T) {
	for _, name := range []string{
		"TAR_OPTIONS", "MAKEFILES", "GNUMAKEFLAGS", "RIPGREP_CONFIG_PATH", "PERLLIB", "PYTHONINSPECT", "NODE_V8_COVERAGE", "GIT_TRACE", "GIT_TRACE2_EVENT",
		"BASHOPTS", "POSIXLY_CORRECT", "GOCACHEPROG", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "PIP_PYTHON", "rsync_rsh",
	} {
		if _, err := Gateway(GatewayOptions{Call: map[string]string{name: "x"}}); !errors.Is(err, corral.ErrDenied) {
			t.Errorf("a call may set %s: %v", name, err)
		}
		env := must(Gateway(GatewayOptions{Inherited: []string{name + "=x"}, GOOS: "linux"}))
		if !slices.Contains(env.Vars, name+"=x") {
			t.Errorf("%s is not inherited", name)
		}
	}
	for _, name := range []string{"LANG", "TZ", "NODE_ENV", "GOOS", "GOARCH", "CI", "DEBUG", "JAVA_HOME", "TMPDIR", "GIT_AUTHOR_NAME"} {
		if _, err := Gateway(GatewayOptions{Call: map[string]string{name: "x"}}); err != nil {
			t.Errorf("a call may not set %s: %v", name, err)
		}
	}
}
