package policy_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectrace"
	"github.com/corral-exec/corral/policy"
)

// A bypass is a command that runs rm, which no rule allows, and hides it. In its text
// @BIN@ is the directory of all programs, and @RM@ the file rm there; bin/rm is the
// same file. Its working directory has fixtureFiles.
type bypass struct {
	text  string
	shell string // bash if empty
	runs  string // instead of rm
	needs string // the program to be installed for the proof

	unproved string            // why it is not run for proof
	nature   string            // why a rule that denies rm cannot find it
	env      []string          // variables of the call
	files    map[string]string // beside fixtureFiles
	code     bool              // it loads the code in @SO@
	kernel   string            // why no table can tell: an allowlist allows it, and only the kernel can stop it

	pinned bool // an allowlist allows it, but pinned it is no longer a bypass
}

// bypassClass is bypasses of one kind.
type bypassClass struct {
	name string
	rows []bypass
}

// bypassPrograms are on the PATH of bypasses, and are all allowed, with any arguments.
// If a program of a row's needs is not installed, a stand-in takes its place, so that
// the policy finds it.
var bypassPrograms = strings.Fields(`
	[ awk basename bash busybox cat choom chrt cp cpio cut dash dc dirname docker du echo ed egrep env ex expr false fd file find fish
	flock gawk gcc gdb git go grep gzip head ionice join ksh less ln ls lua m4 make man mawk mkdir mv nice node nohup npm npx
	openssl parallel paste perf perl php pkexec pr printf prlimit pwd pwsh python3 realpath rsync ruby run-parts
	runuser scp screen script sed seq setarch linux64 setpriv setsid sftp sh sleep sort split sqlite3 ssh ssh-agent
	start-stop-daemon stat stdbuf strace su sudo systemd-run tac tail tar taskset tclsh tcpdump tee test time timeout tmux
	touch toybox tr tree true tty uname uniq unshare vim watch wc wget which xargs yarn yes zip zsh
	bun pnpm poetry uv nsenter chroot doas at crontab emacs
	apt apt-get as busctl c99 c89 cargo dbus-send debconf debconf-apt-progress diff diff3 dpkg dpkg-architecture dpkg-buildpackage
	editor gpg-agent gpg-connect-agent groff iconv install iptables jar java json_pp keytool ld ld.bfd msgexec msgfilter nm pager pod2man
	prove psql pydoc3 scriptlive sensible-browser sensible-editor sensible-pager sotruss ssh-keygen systemd-cat systemd-inhibit
	uclampset vim.basic vipw x86_64-linux-gnu-gcc x86_64-linux-gnu-gcc-12 x86_64-linux-gnu-nm xzgrep zgrep zless zmore
`)

// bypassEnv are variables of the command. The policy does not see them.
var bypassEnv = []string{
	"LC_ALL=C.UTF-8", "TERM=dumb", "GIT_CONFIG_NOSYSTEM=1", "FOO=bar",
	"PROGRAM=rm",
	"CARRIED=rm victim",
	"EVAL=rm victim",
	"CODE=$(rm victim)",
	"INDEX=a[$(rm victim)]",
	"N=-n 5",
	"EXEC=-exec",
	"ARGS=-exec rm victim ;",
	"ALIAS=!rm victim",
	"G=-c alias.x=!rm",
	"SED=1e rm victim",
	"F=script.sh",
	"ANY=evil.py",
}

// fixture makes the working directory of one bypass, which is its HOME too.
type fixture struct {
	shared string // rm, and a repository
	bin    string // the programs

	allowlists bool // without rules that deny rm
}

const fakeRM = "#!/bin/sh\n[ -z \"$RAN\" ] || : >\"$RAN\"\n"

func newFixture(t *testing.T) fixture {
	t.Helper()
	shared := realTempDir(t)
	f := fixture{shared: shared, bin: filepath.Join(shared, "bin")}
	write(t, filepath.Join(shared, "rm"), fakeRM, 0o755)
	write(t, filepath.Join(f.bin, "README"), "", 0o644)
	f.link(t, filepath.Join(f.bin, "rm"))
	for _, name := range bypassPrograms {
		target := installed(name)
		if target == "" {
			target = "/bin/false" // any file that exists
		}
		if err := os.Symlink(target, filepath.Join(f.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	repo := filepath.Join(f.shared, "repo")
	for i, args := range []string{
		"init -q --template= -b main " + repo,
		"-C " + repo + " commit -q --allow-empty -m 1",
		"-C " + repo + " add list",
		"-C " + repo + " commit -q -m 2",
		"-C " + repo + " commit -qa -m 3",
	} {
		write(t, filepath.Join(repo, "list"), strings.Repeat("victim\n", 5-i), 0o644)
		cmd := exec.CommandContext(t.Context(), "git", strings.Fields(args)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	return f
}

var fixtureFiles = map[string]string{
	"victim":                "",
	"list":                  "victim\n",
	"script.sh":             "rm victim\n",
	"0":                     "rm victim\n",
	"script.awk":            `BEGIN { system("rm victim") }`,
	"script.sed":            "1e rm victim\n",
	"script.vim":            "!rm victim\n",
	"evil.py":               `import os; os.system("rm victim")`,
	"evil.pm":               `system("rm victim"); 1;`,
	"evil.js":               `require("child_process").execSync("rm victim")`,
	"evil.mk":               "all:\n\trm victim\n",
	"shell.mk":              "x := $(shell rm victim)\n",
	"empty.mk":              "all:\n\t@:;:\n",
	"uses.mk":               "y := $(x)\nall:\n",
	"config":                "Host h\nProxyCommand rm victim\n",
	".gitconfig":            "[user]\nname = a\nemail = a@b\n",
	"glob/rm":               "",
	"glob/victim":           "",
	"glob/-exec":            "",
	"cmds/rm":               "",
	"cmds/victim":           "",
	"tarred/--checkpoint=1": "",
	"tarred/--checkpoint-action=exec=rm victim": "",
	"tarred/z": "",
}

// make returns the directory.
func (f fixture) make(t *testing.T, row bypass) string {
	t.Helper()
	dir := realTempDir(t)
	for name, content := range fixtureFiles {
		write(t, filepath.Join(dir, name), content, 0o644)
	}
	if strings.Contains(row.text, "big") {
		write(t, filepath.Join(dir, "big"), strings.Repeat("0123456789abcdef\n", 20_000), 0o644)
	}
	for _, sub := range []string{"bin", "evil", "links", "hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin/rm", "evil/ls", "evil/echo", "evil/git-x", "evil/troff", "evil/as", "hooks/pre-commit"} {
		f.link(t, filepath.Join(dir, name))
	}
	for _, name := range []string{"ls", "RM", "l\u0455", "\uff4c\uff53", "\u202els"} {
		if err := os.Symlink("../bin/rm", filepath.Join(dir, "links", name)); err != nil {
			t.Fatal(err)
		}
	}
	if row.linked() {
		for link, name := range map[string]string{"e": "env", "t": "tar", "b": "bash", "a": "awk", "f": "find", "v": "vim.basic"} {
			if err := os.Symlink(filepath.Join(f.bin, name), filepath.Join(dir, "links", link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if strings.Contains(row.text, "git") {
		if err := os.CopyFS(filepath.Join(dir, ".git"), os.DirFS(filepath.Join(f.shared, "repo/.git"))); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range row.files {
		path := filepath.Join(dir, name)
		_ = os.Remove(path) // one of the repository, that cannot be written to
		write(t, path, f.filled(content, dir), 0o755)
	}
	return dir
}

// link makes the file rm at path. It links rather than copies: a file written while
// another thread starts a process cannot be executed for a moment.
func (f fixture) link(t *testing.T, path string) {
	t.Helper()
	if err := os.Link(filepath.Join(f.shared, "rm"), path); err != nil {
		t.Fatal(err)
	}
}

// installed is the path of the program, or empty.
func installed(name string) string {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// prove runs the bypass and reports whether rm ran.
func (f fixture) prove(t *testing.T, row bypass, dir, text string) bool {
	return f.runsRM(t, row, dir, []string{row.shellPath(), "-c", text})
}

// linked reports whether links to programs are allowed, by their own names.
func (row bypass) linked() bool { return strings.HasPrefix(row.text, "./links/") && row.text[9] == ' ' }

func (row bypass) shellPath() string { return "/bin/" + cmp.Or(row.shell, "bash") }

func (f fixture) runsRM(t *testing.T, row bypass, dir string, args []string) bool {
	t.Helper()
	return f.runsRMIn(t, row, dir, args, nil)
}

// runsRMIn is runsRM in an execution domain.
func (f fixture) runsRMIn(t *testing.T, row bypass, dir string, args []string, domain *corral.Domain) bool {
	t.Helper()
	rm, err := os.Stat(filepath.Join(f.shared, "rm"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := exectrace.Run(exectrace.Command{
		Args:    args,
		Env:     f.environment(row, dir),
		Dir:     dir,
		Timeout: 20 * time.Second,
		Domain:  domain,
	})
	if err != nil {
		t.Fatalf("%q: %v", row.text, err)
	}
	for _, p := range r.Programs {
		if domain != nil && !domain.AnyProgram && !within(domain.Programs, p) {
			t.Errorf("%s: %s was executed, which is not in the domain %q", row.name(), p, domain.Programs)
		}
	}
	for _, p := range r.Programs {
		if info, err := os.Stat(p); err == nil && os.SameFile(info, rm) {
			return true
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "victim")); err != nil {
		return true // another rm, such as busybox's
	}
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
		return true // read by a shell
	}
	if testing.Verbose() {
		t.Logf("%q: status %#x, timed out: %v\nran %q\n%s%s", args, r.Status, r.TimedOut, r.Programs, r.Stdout, r.Stderr)
	}
	return false
}

// environment is the environment of the command: the call's variables win.
func (f fixture) environment(row bypass, dir string) []string {
	env := append([]string{"PATH=" + f.bin, "HOME=" + dir, "RAN=" + filepath.Join(dir, "ran")}, bypassEnv...)
	for _, set := range row.env {
		name, _, _ := strings.Cut(set, "=")
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, f.filled(set, dir))
	}
	return env
}

// filled is text with paths in place of @BIN@ and so on.
func (f fixture) filled(text, dir string) string {
	return strings.NewReplacer("@BIN@", f.bin, "@RM@", filepath.Join(f.bin, "rm"), "@DIR@", dir, "@SO@", filepath.Join(f.shared, "evil.so"), "@SODIR@", f.shared).Replace(text)
}

func (row bypass) name() string {
	text := fmt.Sprintf("%+q", row.text)
	if len(text) > 100 {
		text = text[:60] + "…" + text[len(text)-30:]
	}
	return text
}

// Every bypass does run rm. The policy does not allow it, even if all other programs
// are allowed. With a rule that denies rm, security=full does not allow it either.
func TestBypasses(t *testing.T) {
	f := newFixture(t)
	var proved, unproved, absent, natural int
	var mu sync.Mutex
	count := func(n *int) { mu.Lock(); *n++; mu.Unlock() }
	t.Run("all", func(t *testing.T) {
		for _, class := range slices.Concat(shellBypasses, wrapperBypasses, carrierBypasses) {
			t.Run(class.name, func(t *testing.T) {
				t.Parallel()
				for _, row := range class.rows {
					dir := f.make(t, row)
					text := f.filled(row.text, dir)
					f.check(t, row, dir, text)
					switch {
					case row.unproved != "":
						count(&unproved)
					case row.needs != "" && !present(row.needs):
						count(&absent)
					case f.prove(t, row, dir, text):
						count(&proved)
					default:
						t.Errorf("%s: is no bypass: it does not run rm", row.name())
					}
					if row.nature != "" {
						count(&natural)
					}
				}
			})
		}
	})
	t.Logf("%d bypasses: %d ran rm, %d not run, %d of programs that are not installed; %d that a rule for rm cannot find",
		proved+unproved+absent, proved, unproved, absent, natural)
	if proved < 550 {
		t.Errorf("only %d bypasses are proven", proved)
	}
}

func present(name string) bool {
	if strings.Contains(name, "/") {
		_, err := os.Stat(name)
		return err == nil
	}
	return installed(name) != ""
}

// check has the policy decide on the bypass.
func (f fixture) check(t *testing.T, row bypass, dir, text string) {
	t.Helper()
	req := policy.Request{Command: text, Shell: []string{row.shellPath(), "-c"}, Dir: dir, Path: f.bin, Home: dir, Env: map[string]string{}}
	for _, set := range row.env {
		name, value, _ := strings.Cut(f.filled(set, dir), "=")
		req.Env[name] = value
	}

	strict := policy.Rules{
		Security:    policy.Setting[policy.Security]{Value: policy.SecurityAllowlist},
		Ask:         policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
		SafeBins:    policy.Setting[[]string]{Value: []string{"cut", "uniq", "head", "tail", "tr", "wc", "sort", "grep"}},
		SafeBinDirs: []string{f.bin},
	}
	for _, name := range bypassPrograms {
		strict.List = append(strict.List, policy.Rule{Action: policy.Allow, Pattern: policy.QuotePattern(filepath.Join(f.bin, name))})
	}
	if row.linked() {
		strict.List = append(strict.List, policy.Rule{Action: policy.Allow, Pattern: filepath.Join(dir, "links/*")})
	}
	loose := strict
	loose.Chaining.Value, loose.Redirections.Value = true, true
	full := policy.Rules{
		Security: policy.Setting[policy.Security]{Value: policy.SecurityFull},
		Ask:      policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
		List:     []policy.Rule{{Action: policy.Deny, Pattern: "rm"}},
	}

	for name, rules := range map[string]policy.Rules{"an allowlist without rm": strict, "a loose allowlist without rm": loose, "a rule that denies rm": full} {
		d := policy.Decide(req, rules, policy.OS{})
		if f.allowlists && rules.Security.Value == policy.SecurityFull {
			continue
		}
		allowed := d.Outcome == policy.Allowed || d.Fallback == policy.Allowed
		full := rules.Security.Value == policy.SecurityFull
		switch {
		case !full && row.kernel != "":
			if !allowed {
				t.Errorf("%s: %s finds it (%s), and is said not to, since %s", row.name(), name, d.Reason, row.kernel)
			}
		case allowed && row.pinned && !full:
			if d.Run == nil || f.runsRM(t, row, dir, d.Run.Args) {
				t.Errorf("%s: %s allows it, and %q is as bad", row.name(), name, d.Run)
			}
		case allowed && !(full && row.nature != ""):
			t.Errorf("%s: %s allows it: %s; runs %q", row.name(), name, d.Reason, d.Run)
		case !allowed && full && row.nature != "":
			t.Errorf("%s: %s finds it (%s), and is said not to, since %s", row.name(), name, d.Reason, row.nature)
		}
	}
}

// realTempDir is a temporary directory whose path has no links. It is in memory, if
// programs can be executed there: on disk, the many small files take ten times as long.
func realTempDir(t *testing.T) string {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(memoryDir, &fs); err == nil && fs.Type == unix.TMPFS_MAGIC && fs.Flags&unix.ST_NOEXEC == 0 {
		if dir, err := os.MkdirTemp(memoryDir, "corral-policy-"); err == nil {
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			return dir
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

const memoryDir = "/dev/shm"

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
