//go:build linux

package login

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shells are those that are /bin/sh in images, by the names that they have as such, and
// bash by its own.
func shells(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	for _, name := range []string{"dash", "bash", "busybox"} {
		file, err := exec.LookPath(name)
		if err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		link := filepath.Join(t.TempDir(), "sh")
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		list[name] = link
		if name == "bash" {
			list["bash by its name"] = file
		}
	}
	if len(list) == 0 {
		t.Fatal("there is no shell")
	}
	return list
}

func TestMain(m *testing.M) {
	if Main(os.Args[1:], os.Stdout) {
		return
	}
	os.Exit(withProgram(m))
}

// program is this program, where every user finds it. Bash takes no PS4 from the
// environment of root, and sandboxes have none: where the tests are root's, snapshots
// are taken as another user.
var program string

func withProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "login")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "program")
	self, err := os.Executable()
	if err == nil {
		err = exec.Command("cp", self, program).Run()
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		panic(err)
	}
	return m.Run()
}

// asUser has a command run as a user who is not root, in a directory of a test.
func asUser(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for dir := cmd.Dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// takeIn takes a snapshot as the warden has it taken.
func takeIn(t *testing.T, shell, home string, env ...string) snapshot {
	t.Helper()
	cmd := exec.Command(program, Take, shell)
	cmd.Dir = home
	cmd.Env = slices.Concat([]string{"HOME=" + home, "PATH=/usr/bin:/bin", ProcessID + "=" + Placeholder}, env)
	asUser(t, cmd)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := decode(string(out))
	if !ok {
		t.Fatalf("not whole: %q", out)
	}
	return s
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// waitSettled waits until no file of the profile counts as changed just now.
func waitSettled() { time.Sleep(settled + 50*time.Millisecond) }

// differing are the cases in which the trace or the state of one shell is written in
// another way than that of others. Dash, which is sh in Debian, runs all.
var differing = []string{
	"exported", "unset", "if there is a directory", "a function that is gone", "another file", "SHLVL and PS4 are the shell's",
	"a function", "an alias", "a variable that is not exported", "a trap", "umask", "exit", "output", "error output", "a program",
	"a program after an assignment", "a value of two lines", "the number of the shell", "the ID of the command",
}

func TestSnapshot(t *testing.T) {
	tests := []struct {
		name, profile string
		env           []string
		want          string // a variable that the snapshot has; with a !, that it has not
		why           string // there is none, because
	}{
		{name: "no profile", profile: "", want: "PATH="},
		{name: "exported", profile: "A='x y'\nexport A\n", want: "A=x y"},
		{name: "export", profile: "export A=1 B=2\n", want: "B=2"},
		{name: "appended to what is passed", profile: `export A="$A:b"`, env: []string{"A=a"}, want: "A=a:b"},
		{name: "passed and untouched", profile: "export B=1", env: []string{"A=it's"}, want: "A=it's"},
		{name: "unset", profile: "unset A", env: []string{"A=a"}, want: "!A"},
		{name: "if there is a directory", profile: `if [ -d "$HOME/bin" ]; then PATH="$HOME/bin:$PATH"; fi`, want: "PATH="},
		{name: "a steady program", profile: "export A=$(id -u)\n", want: "A="},
		{name: "a function that is gone", profile: "f() { export A=$1; }\nf 7\nunset -f f\n", want: "A=7"},
		{name: "another file", profile: `. "$HOME/more.sh"`, want: "MORE=1"},
		{name: "command -v with redirections", profile: "if command -v nosuch >/dev/null 2>&1; then export A=1; fi\nexport B=2", want: "B=2"},
		{name: "a comment about 2>", profile: "# f() 2>/dev/null\nexport B=2", want: "B=2"},
		{name: "eval of text", profile: `eval "export A=1"`, want: "A=1"},
		{name: "the same umask", profile: "umask $(umask)\nexport A=1", want: "A=1"},
		{name: "a prompt", profile: "PS1='# $ '\nexport A=1", want: "A=1"},
		{name: "SHLVL and PS4 are the shell's", profile: "", env: []string{"SHLVL=3", "PS4=> "}, want: "SHLVL=3"},

		{name: "a function", profile: "f() { :; }", why: "more than an environment"},
		{name: "a function by eval", profile: `eval "f() { :; }"`, why: "more than an environment"},
		{name: "an alias", profile: "alias ll='ls -l'", why: "more than an environment"},
		{name: "a variable that is not exported", profile: "A=1", why: "more than an environment"},
		{name: "IFS", profile: "IFS=:", why: "more than an environment"},
		{name: "umask", profile: "umask 077", why: "more than an environment"},
		{name: "a limit", profile: "ulimit -S -c 0; ulimit -n 99", why: "more than an environment"},
		{name: "a trap", profile: "trap 'true' EXIT", why: "more than an environment"},
		{name: "a signal that is ignored", profile: "trap '' USR1", why: "more than an environment"},
		{name: "set -e", profile: "set -e", why: "it runs"},
		{name: "set -u in eval", profile: `eval 'set -u'`, why: "it runs"},
		{name: "set +x", profile: "set +x; A=$(date); set -x", why: "it runs"},
		{name: "cd", profile: "cd /", why: "it runs"},
		{name: "exec", profile: "exec sleep 0", why: "ends the shell"},
		{name: "exec of a descriptor", profile: "exec 7</dev/null", why: "it runs"},
		{name: "exit", profile: "export A=1\nexit 0", why: "ends the shell"},
		{name: "output", profile: "echo welcome", why: "standard output"},
		{name: "error output", profile: "echo welcome >&2", why: "standard error"},
		{name: "an error", profile: ". /no/such/file", why: "standard error"},
		{name: "a value of two lines", profile: "export A='1\n2'", why: "standard error"},
		{name: "a program", profile: "export A=$(date)", why: "runs a program"},
		{name: "a program by its path", profile: "export A=$(/bin/date)", why: "runs a program"},
		{name: "a program after an assignment", profile: "LC_ALL=C date >/dev/null", why: "runs a program"},
		{name: "a steady program of another directory", profile: "A=$($HOME/id -u)", why: "runs a program"},
		{name: "a group whose trace is hidden", profile: "{ A=$(date); export A; } 2>/dev/null", why: "redirects standard error"},
		{name: "a file whose trace is hidden", profile: ". $HOME/more.sh 2>/dev/null", why: "redirects standard error"},
		{name: "hidden by eval", profile: `eval "{ A=\$(date); } 2>/dev/null"`, why: "redirects standard error"},
		{name: "hidden in another file", profile: ". $HOME/hidden.sh", why: "redirects standard error"},
		{name: "reads standard input", profile: "read A; export A", why: "it runs"},
		{name: "a file by a relative name", profile: ". ./more.sh", why: "not absolute"},
		{name: "the number of the shell", profile: "export A=$$", why: "not the same each time"},
		{name: "the ID of the command", profile: "export A=$CORRAL_PROCESS", why: "another in each command"},
		{name: "sets the ID of the command", profile: "CORRAL_PROCESS=x", why: "another in each command"},
		{name: "unsets the ID of the command", profile: "unset CORRAL_PROCESS", why: "CORRAL_PROCESS"},
		{name: "HOME", profile: "export HOME=/", why: "HOME"},
		{name: "PS4", profile: "PS4='> '", why: "standard error"},
		{name: "in the background", profile: "sleep 100 &", why: ""},
		{name: "slow", profile: "sleep 20", why: "longer than"},
		{name: "too much", profile: "A=" + strings.Repeat("x", MaxEnv) + "; export A", why: "more than"},
	}
	homes := make([]string, len(tests))
	for i, tt := range tests {
		homes[i] = t.TempDir()
		write(t, filepath.Join(homes[i], "more.sh"), "export MORE=1\n")
		write(t, filepath.Join(homes[i], "hidden.sh"), "if true; then A=$(date); fi 2>/dev/null\n")
		write(t, filepath.Join(homes[i], ".profile"), tt.profile)
		write(t, filepath.Join(homes[i], "id"), "#!/bin/sh\necho 1\n")
		if err := os.Chmod(filepath.Join(homes[i], "id"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	waitSettled()
	for name, shell := range shells(t) {
		for i, tt := range tests {
			if name != "dash" && !slices.Contains(differing, tt.name) {
				continue
			}
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				s := takeIn(t, shell, homes[i], tt.env...)
				if s.again {
					t.Fatal("it is too early")
				}
				if tt.want == "" {
					if s.why == "" || !strings.Contains(s.why, tt.why) {
						t.Fatalf("a snapshot for the reason %q, want %q: %q", s.why, tt.why, s.env)
					}
					if len(s.watches) == 0 {
						t.Error("nothing is watched")
					}
					return
				}
				if s.why != "" {
					t.Fatalf("no snapshot: %s", s.why)
				}
				name, not := strings.CutPrefix(tt.want, "!")
				has := slices.ContainsFunc(s.env, func(v string) bool {
					return v == name || strings.HasPrefix(v, name) && (not || strings.HasSuffix(name, "="))
				})
				if has == not {
					t.Errorf("want %s in %q", tt.want, s.env)
				}
			})
		}
	}
}

// A shell with the snapshot has the environment that a login shell has.
func TestSnapshotIsTheEnvironment(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, ".profile"), "export A=\"$A:\\\"q'\" PATH=\"$HOME/bin:$PATH\"\nunset B\n")
	waitSettled()
	passed := []string{"A=a b", "B=1", "C=c\nc", "SHLVL=4", "PS4=? "}
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := takeIn(t, shell, home, passed...)
			if s.why != "" || s.again {
				t.Fatal(s.why)
			}
			run := func(option string, env []string) string {
				cmd := exec.Command(shell, option, "env | sort; echo $#; umask; pwd")
				cmd.Dir, cmd.Env = home, env
				asUser(t, cmd)
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				return string(out)
			}
			login := run("-lc", slices.Concat([]string{"HOME=" + home, "PATH=/usr/bin:/bin", ProcessID + "=" + Placeholder}, passed))
			if d := cmp.Diff(login, run("-c", s.env)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Bash by its own name reads the first of three files.
func TestBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	names := []string{".bash_profile", ".bash_login", ".profile"}
	for _, name := range names {
		write(t, filepath.Join(home, name), "export READ="+name+"\n")
	}
	for _, name := range names {
		waitSettled()
		s := takeIn(t, bash, home)
		if s.why != "" || !slices.Contains(s.env, "READ="+name) {
			t.Fatalf("%s: %q, %q", name, s.env, s.why)
		}
		e := &entry{watches: s.watches}
		if !e.current() {
			t.Errorf("%s has changed at once", name)
		}
		if err := os.Remove(filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
		if e.current() {
			t.Errorf("%s is gone, and nothing has changed", name)
		}
		defer func() { // one that comes before it
			write(t, filepath.Join(home, name), "")
			if e.current() {
				t.Errorf("%s has come, and nothing has changed", name)
			}
		}()
	}
	write(t, filepath.Join(home, ".profile"), "export BASH_ENV=/dev/null\n")
	waitSettled()
	if s := takeIn(t, bash, home); !strings.Contains(s.why, "BASH_ENV") {
		t.Errorf("a snapshot with BASH_ENV: %q, %q", s.env, s.why)
	}
}

func TestTooEarly(t *testing.T) {
	home := t.TempDir()
	profile := filepath.Join(home, ".profile")
	write(t, profile, "export A=1\n")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // however long it takes to begin
		defer close(stopped)
		for mode := os.FileMode(0o600); ; mode ^= 0o040 {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				if err := os.Chmod(profile, mode); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	if s := takeIn(t, "/bin/sh", home); !s.again {
		t.Errorf("a snapshot of a file that has changed just now: %+v", s)
	}
}

// What a profile depends on is watched, and nothing that changes all the time.
func TestWatches(t *testing.T) {
	home := t.TempDir()
	more := filepath.Join(home, "d")
	if err := os.Mkdir(more, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(more, "a.sh"), "export A=1\n")
	write(t, filepath.Join(home, ".profile"), `for i in "$HOME"/d/*.sh; do . "$i"; done; unset i; [ -e "$HOME/x" ] && export X=1; [ -f rel ] || :; [ -d "$HOME" ]`)
	waitSettled()
	s := takeIn(t, "/bin/sh", home)
	if s.why != "" || s.again {
		t.Fatal(s.why)
	}
	current := func() bool {
		return (&entry{watches: s.watches}).current()
	}
	if !current() {
		t.Fatal("it has changed at once")
	}
	change := func(name string, f func(file string) error, want bool) {
		t.Helper()
		if err := f(filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
		if current() == want {
			t.Errorf("%s: changed: %v, want %v", name, !want, want)
		}
		s = takeIn(t, "/bin/sh", home)
		for s.again {
			waitSettled()
			s = takeIn(t, "/bin/sh", home)
		}
	}
	touch := func(file string) error { return os.WriteFile(file, nil, 0o644) }
	change("y", touch, false)
	change("x", touch, true)
	change("x", os.Remove, true)
	change("rel", touch, true)
	change("d/b.sh", touch, true)
	change("d/a.sh", func(f string) error { return os.WriteFile(f, []byte("export A=2\n"), 0o644) }, true)
	change(".profile", os.Remove, true)
}

// The end of a shell's output may be read later than the shell ends, as on a busy
// machine: that is no process in the background.
func TestLateEnd(t *testing.T) {
	shell := filepath.Join(t.TempDir(), "sh")
	write(t, shell, "#!/bin/sh\nsleep 0.4 &\nexec /bin/sh \"$@\"\n")
	if err := os.Chmod(shell, 0o755); err != nil {
		t.Fatal(err)
	}
	tk := &taker{shell: shell, self: program, marker: "0123456789abcdef"}
	if _, err := tk.run("-xc", []string{"PATH=/usr/bin:/bin"}, nil); err != nil {
		t.Error(err)
	}
}
