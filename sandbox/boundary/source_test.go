package boundary

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// SPEC.md, section 7: "binds validated after symlinks (no engine socket, `/`,
// `/etc`, `/proc`, `/sys`, `/dev`, no credential directories), host networking
// and `unconfined` profiles refused".

// A source of Corral's own is judged by its target, which is not the workspace either where
// that is elsewhere.
func TestOwn(t *testing.T) {
	state := t.TempDir()
	s := Sources{Private: []string{state}, Roots: []string{"/srv"}, Workdir: "/home/user"}
	for target, want := range map[string]Rule{
		"/mnt/data": "", "/home/other": "", "/home/user": BindReserved, "/home/user/data": BindReserved, "/home": BindReserved, "/workspace": BindReserved, "/proc/x": BindReserved,
	} {
		for _, own := range []bool{true, false} {
			want := want
			if !own && want == "" {
				want = BindState
			}
			r := s.Check(Bind{Text: target, Source: state + "/v", Target: target, Own: own})
			if (r == nil) != (want == "") || r != nil && r.Rule != want {
				t.Errorf("%s, own is %v: %+v, want %q", target, own, r, want)
			}
		}
	}
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	home, state, roots := filepath.Join(dir, "home"), filepath.Join(dir, "state"), filepath.Join(dir, "roots")
	for _, d := range []string{home + "/.ssh", home + "/project", state, roots + "/in", dir + "/ghost/.aws"} {
		mkdir(t, d)
	}
	link(t, "/etc", dir+"/to-etc")
	link(t, "to-etc", dir+"/to-to-etc")
	link(t, "/run/not-there", dir+"/dangling")
	link(t, dir+"/loop", dir+"/loop")
	link(t, home+"/.ssh", roots+"/keys")
	listen, err := net.Listen("unix", dir+"/any.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Close()
	mkdir(t, dir+"/svc")
	s := Sources{Homes: []string{home}, Private: []string{state}, Sockets: []string{dir + "/svc/engine"}}
	for _, tt := range []struct {
		bind string
		want Rule // empty: allowed
	}{
		{home + "/project:/data", ""},
		{"/srv/not/there/yet:/data:ro", ""},
		{"/usr/share/doc:/doc:ro", ""},
		{"/var:/host-var:ro", ""}, // as OpenClaw has it
		{"/etcetera:/data", ""},
		{dir + "/svc-other:/data", ""},

		{"/:/host", BindRoot},
		{"//:/host", BindRoot},
		{"/srv/..:/host", BindRoot},
		{"/etc:/data", BindSystem},
		{"/etc/:/data", BindSystem},
		{"//etc//ssl/./:/data", BindSystem},
		{"/ETC/passwd:/data", BindSystem},
		{"/proc/self/root:/data", BindSystem},
		{"/proc/1/root/home:/data", BindSystem},
		{"/sys/fs/cgroup:/data", BindSystem},
		{"/dev/null:/data", BindSystem},
		{"/boot:/data", BindSystem},
		{"/root/project:/data", BindSystem},
		{"/var/run/user:/data", BindSystem},
		{"/var/lib/docker/volumes:/data", BindSystem},
		{dir + "/to-etc:/data", BindSystem},
		{dir + "/to-to-etc/passwd:/data", BindSystem},
		{dir + "/to-etc/../../etc/passwd:/data", BindSystem},
		{dir + "/to-etc/not-there/at/all:/data", BindSystem},
		{dir + "/dangling/x:/data", BindSystem},
		{"/var/lib:/data", BindCovers},
		{dir + "/loop:/data", BindUnknown},
		{home + ":/data", BindHome},
		{home + "/:/data", BindHome},
		{dir + ":/data", BindHome}, // it covers one
		{dir + "/ghost:/data", BindHome},
		{home + "/.ssh:/data", BindCredential},
		{home + "/.SSH/id_ed25519:/data", BindCredential},
		{home + "/.s\u200dsh/id_ed25519:/data", BindCredential},
		{home + "/project/../.ssh:/data", BindCredential},
		{roots + "/keys:/data", BindCredential},
		{home + "/.config/gh/hosts.yml:/data", BindCredential},
		{"/home/somebody/.kube/config:/data", BindCredential},
		{"/Users/somebody/.Docker:/data", BindCredential},
		{state + ":/data", BindState},
		{state + "/logs:/data", BindState},
		{dir + "/any.sock:/data", BindSocket},
		{dir + "/svc:/data", BindEngine},
		{dir + "/svc/engine:/data", BindEngine},
		{"/srv/x/docker.sock:/docker.sock", BindEngine},
		{"/srv/x/Containerd.Sock:/s", BindEngine},
		{"/srv/podman.sock:/s", BindEngine},
		{"/srv/crio.sock:/s", BindEngine},
		{"/srv/buildkitd.sock:/s", BindEngine},

		{home + "/project:/workspace", BindReserved},
		{home + "/project:/workspace/sub", BindReserved},
		{home + "/project:/srv/../workspace", BindReserved},
		{home + "/project://agent/", BindReserved},
		{home + "/project:/", BindReserved},
		{home + "/project:/proc/sys", BindReserved},
		{home + "/project:/run/secrets/x", BindReserved},
		{home + "/project:/.corral/run", BindReserved},
		{home + "/project:/tmp", BindReserved},
		{home + "/project:/var", BindReserved},
		{home + "/project:/tmp/cache", ""},
		{home + "/project:/var/cache", ""},

		{"work:/data", BindRelative},
		{"./work:/data", BindRelative},
		{"~/work:/data", BindRelative},
		{home + "/project", BindSyntax},
		{home + "/project:", BindSyntax},
		{":/data", BindSyntax},
		{"", BindSyntax},
		{home + "/project:/data:ro:z", BindSyntax},
		{home + "/project:/data:rw,shared", BindSyntax},
		{home + "/project:/data:RO", BindSyntax},
		{home + "/project\n:/data", BindSyntax},
		{home + "/project:data", BindTarget},
	} {
		if got := ruleOf(&s, tt.bind); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.bind, got, tt.want)
		}
	}
	s.Roots = []string{roots}
	for bind, want := range map[string]Rule{
		roots + "/in:/data":         "",
		roots + ":/data":            "",
		roots + "/../home:/data":    BindHome,
		home + "/project:/data":     BindOutside,
		roots + "-beside:/data":     BindOutside,
		roots + "/in/../../x:/data": BindOutside,
	} {
		if got := ruleOf(&s, bind); got != want {
			t.Errorf("with roots, %s: %q, want %q", bind, got, want)
		}
	}
}

func ruleOf(s *Sources, text string) Rule {
	b, err := ParseBind(text)
	list := Refusals(err)
	if err == nil {
		list = s.CheckAll([]Bind{b})
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].Rule
}

func TestSameTargetTwice(t *testing.T) {
	var s Sources
	list := s.CheckAll([]Bind{{Text: "a", Source: "/srv/a", Target: "/data"}, {Text: "b", Source: "/srv/b", Target: "/data"}})
	if len(list) != 1 || list[0].Rule != BindTwice || list[0].Subject != "b" {
		t.Errorf("%+v", list)
	}
}

// A workspace may be where a bind may not: in the home directory of root.
func TestWorkspaces(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, dir+"/.ssh")
	s := Sources{Homes: []string{"/root"}}
	for path, want := range map[string]Rule{
		"/root/project": "", "/root": BindHome, "/root/.ssh": BindCredential, "/etc": BindSystem, "/": BindRoot,
		dir: "", // commands make it themselves: it is their home directory
	} {
		got := Rule("")
		if r := s.CheckWorkspace(path); r != nil {
			got = r.Rule
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A refusal says what is refused, where that really is, and what helps.
func TestRefusalsExplainThemselves(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	s := Sources{Homes: []string{"/root"}}
	for text, want := range map[string]Refusal{
		dir + "/link:/data":               {Rule: BindSystem, Why: "symbolic links make it /etc: it targets the blocked path /etc", Fix: useProject},
		dir + "/link/ssl:/data":           {Rule: BindSystem, Why: "symbolic links make it /etc/ssl: it targets the blocked path /etc", Fix: useProject},
		"/etc/:/data":                     {Rule: BindSystem, Why: "it targets the blocked path /etc", Fix: useProject},
		"/root:/data":                     {Rule: BindHome, Why: "it is the home directory /root, which holds credentials", Fix: useProject},
		"/root/.ssh:/data":                {Rule: BindCredential, Why: "it targets the blocked path /root/.ssh, where credentials are kept", Fix: useProject},
		"/var/run/docker.sock:/data":      {Rule: BindEngine, Why: "docker.sock is the socket of an engine, which is as good as root on the machine", Fix: useOutside},
		dir + ":/":                        {Rule: BindReserved, Why: "it covers the reserved container path /workspace", Fix: "choose another target, such as /data"},
		dir + ":/workspace/../proc/sys/x": {Rule: BindReserved, Why: "it targets the reserved container path /proc", Fix: "choose another target, such as /data"},
	} {
		b, err := ParseBind(text)
		if err != nil {
			t.Fatal(err)
		}
		got := s.Check(b)
		if got == nil || got.Rule != want.Rule || got.Why != want.Why || got.Fix != want.Fix || got.Subject != text {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestRefusalIsAnError(t *testing.T) {
	var s Sources
	b, err := ParseBind("/etc:/data")
	if err != nil {
		t.Fatal(err)
	}
	r := s.Check(b)
	if !errors.Is(r, corral.ErrDenied) || corral.Hint(r) != r.Fix+"; corral sandbox explain shows all that the configuration is refused" ||
		r.Error() != "cannot mount /etc:/data into a sandbox: it targets the blocked path /etc (bind-system)" || r.Text() != strings.TrimSuffix(r.Error(), " (bind-system)") {
		t.Errorf("%v, hint %q", r, corral.Hint(r))
	}
	_, err = ParseBind(strings.Repeat("x", 10_000))
	if !errors.Is(err, corral.ErrInvalid) || len(err.Error()) > 600 {
		t.Errorf("%d bytes: %v", len(err.Error()), err)
	}
	if got := Refusals(errors.Join(r, errors.New("other"), err)); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		judge func(string) *Refusal
		name  string
		want  Rule
	}{
		{Network, "", ""}, {Network, "none", ""}, {Network, "bridge", ""}, {Network, "team_net.1", ""}, {Network, "hosts", ""},
		{Network, "host", NetworkHost}, {Network, "HOST", NetworkHost}, {Network, " host ", NetworkHost}, {Network, "Hoſt", NetworkHost},
		{Network, "host:x", NetworkHost}, {Network, "pod:x", NetworkContainer}, {Network, "container:x", NetworkContainer}, {Network, "Container:x", NetworkContainer}, {Network, "ns:/proc/1/ns/net", NetworkContainer},
		{Network, "egress:pypi.org", NetworkEgress}, {Network, "slirp4netns:allow_host_loopback=true", NetworkName}, {Network, "-x", NetworkName}, {Network, "a b", NetworkName},
		{Seccomp, "", ""}, {Seccomp, "default", ""}, {Seccomp, "/srv/profile.json", ""},
		{Seccomp, "unconfined", SeccompUnconfined}, {Seccomp, "UNCONFINED", SeccompUnconfined}, {Seccomp, " unconfined\t", SeccompUnconfined}, {Seccomp, "seccomp=unconfined", SeccompUnconfined},
		{Seccomp, "profile.json", SeccompProfile}, {Seccomp, "builtin", SeccompProfile},
		{AppArmor, "", ""}, {AppArmor, "docker-default", ""}, {AppArmor, "openclaw-sandbox", ""},
		{AppArmor, "unconfined", AppArmorUnconfined}, {AppArmor, "Unconfined ", AppArmorUnconfined}, {AppArmor, "localhost:unconfined", AppArmorUnconfined},
		{AppArmor, "a b", AppArmorProfile}, {AppArmor, "x,label=disable", AppArmorUnconfined},
	} {
		got := Rule("")
		if r := tt.judge(tt.name); r != nil {
			got = r.Rule
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestMachine(t *testing.T) {
	homes := accountHomes(strings.NewReader("root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/usr/sbin:/x\nann:x:1000:1000::/home/ann:/bin/sh\nnobody:x:65534:65534::/srv/nobody:/x\nworse:x:y:1::/srv/worse:/x\nlast:x:999:1::/srv/last:/x\nodd:x:1001:1:::/x\nshort:x\nroots:x:1002:1::/:/x\n"))
	if len(homes) != 2 || homes[0] != "/root" || homes[1] != "/home/ann" {
		t.Errorf("homes: %q", homes)
	}
	sockets := listening(strings.NewReader("Num RefCount Protocol Flags Type St Inode Path\n0: 2 0 1 1 1 7 /srv/a/docker.sock\n0: 2 0 1 1 1 8 @/abstract\n0: 2 0 1 1 1 9 /tmp/dev.sock\n0: 3 0 0 1 3 10\n"))
	if len(sockets) != 1 || sockets[0] != "/srv/a/docker.sock" {
		t.Errorf("sockets: %q", sockets)
	}
	s := Machine(func(name string) string {
		return map[string]string{"HOME": "/srv/h", "OPENCLAW_HOME": "/srv/o", "DOCKER_HOST": "unix:///srv/e/sock"}[name]
	})
	for bind, want := range map[string]Rule{"/srv/h/.aws:/d": BindCredential, "/srv/o/.ssh:/d": BindCredential, "/srv/e:/d": BindEngine, "/srv/w:/d": ""} {
		if got := ruleOf(&s, bind); got != want {
			t.Errorf("%s: %q, want %q", bind, got, want)
		}
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func FuzzParseBind(f *testing.F) {
	for _, text := range []string{"/a:/b", "/a:/b:ro", "//..//:/.", "\x00", "/a:/B:rw", "/etc:/w", "/\u200d:/\xff"} {
		f.Add(text)
	}
	s := Sources{Homes: []string{"/home/ann"}}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBind(text)
		if err != nil {
			if len(Refusals(err)) != 1 {
				t.Fatalf("%v is no refusal", err)
			}
			return
		}
		again, err := ParseBind(b.String())
		if err != nil || again.Source != b.Source || again.Target != b.Target || again.ReadOnly != b.ReadOnly {
			t.Fatalf("%+v is read again as %+v, %v", b, again, err)
		}
		for _, tree := range []string{"/etc", "/proc", "/home/ann/.ssh"} {
			if under(b.Source, tree) && s.Check(b) == nil {
				t.Fatalf("%+v is not refused", b)
			}
		}
	})
}

func TestJoin(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	if err := Join(nil); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	if err := Join([]error{one}); err != one { //nolint:errorlint // it stays as it is
		t.Errorf("of one: %v", err)
	}
	if err := Join([]error{one, two}); err.Error() != "one; two" || !errors.Is(err, one) || !errors.Is(err, two) {
		t.Errorf("of two: %v", err)
	}
}
