package policy_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/exectrace"
	"github.com/corral-exec/corral/policy"
)

// allowedPrograms are allowed with any arguments. The sandbox also has
// forbiddenPrograms. Each of these is a file of its own, so that a trace shows whether
// it ran.
var (
	allowedPrograms = strings.Fields(`
		awk basename bash busybox cat cut echo env find head ls nice nohup one printf pwd sed seq sh sort stdbuf
		tar test timeout tr true two uniq wc xargs
	`)
	forbiddenPrograms = []string{"bin/evil", "bin/rm", "bin/reboot", "sub/ls", "sub/one", "evil", "ls"}
)

// A sandbox is a directory in which generated commands run. They leave it as
// it is.
type sandbox struct {
	dir, bin string
	env      []string
	patience time.Duration // for one command
	rules    policy.Rules
	allowed  map[string]bool // the files of allowedPrograms

	enforced, unlimited atomic.Int64 // commands with and without a domain
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	dir := realTempDir(t)
	s := &sandbox{dir: dir, bin: filepath.Join(dir, "bin"), patience: 20 * time.Second, allowed: map[string]bool{}}
	for name, content := range map[string]string{
		"f": "evil a\nb\n", "sub/g": "g\n", "script": "evil\n", "-exec": "", "links/none": "",
		"--checkpoint=1": "", "--checkpoint-action=exec=evil": "", "big": strings.Repeat("0123456789abcdef\n", 10_000),
	} {
		write(t, filepath.Join(dir, name), content, 0o644)
	}
	nothing, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"bin/one", "bin/two"}, forbiddenPrograms...) {
		write(t, filepath.Join(dir, name), string(nothing), 0o755)
	}
	for name, target := range map[string]string{"links/ls": "../bin/evil", "links/one": "../bin/rm"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.rules.Security.Value, s.rules.Ask.Value = policy.SecurityAllowlist, policy.AskOnMiss
	s.rules.Chaining.Value, s.rules.Redirections.Value = true, true
	s.rules.SafeBinDirs = []string{s.bin}
	s.rules.Enforce.Value = policy.EnforceRequire
	for _, name := range allowedPrograms {
		file := filepath.Join(s.bin, name)
		if name != "one" && name != "two" {
			target := installed(name)
			if target == "" {
				t.Fatalf("there is no %s on this machine", name)
			}
			if err := os.Symlink(target, file); err != nil {
				t.Fatal(err)
			}
		}
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			t.Fatal(err)
		}
		s.allowed[real] = true
		rule := policy.Rule{Action: policy.Allow, Pattern: policy.QuotePattern(file)}
		if name == "one" || name == "two" { // no table knows them
			rule.Runs = []string{}
		}
		s.rules.List = append(s.rules.List, rule)
	}
	s.env = []string{
		"PATH=" + s.bin, "HOME=" + dir, "LC_ALL=C.UTF-8", "SPACE=a b", "OPT=-n", "FIVE=5", "PROGRAM=evil", "CARRIED=evil a", "EXEC=-exec",
		"CODE=$(evil)", "INDEX=a[$(evil)]", "ARGS=-exec evil ;",
	}
	return s
}

func (s *sandbox) decide(text, shell string) policy.Decision {
	return policy.Decide(policy.Request{Command: text, Shell: []string{shell, "-c"}, Dir: s.dir, Path: s.bin, Home: s.dir, Workspace: s.dir}, s.rules, policy.OS{})
}

func (s *sandbox) run(args []string) (exectrace.Result, error) {
	return exectrace.Run(exectrace.Command{Args: args, Env: s.env, Dir: s.dir, Timeout: s.patience})
}

// A fault is an error in the policy's decision on a command.
type fault struct{ kind, detail string }

func (f fault) String() string { return f.kind + ": " + f.detail }

// check runs a command that the policy allows, and looks for a fault in the decision.
func (s *sandbox) check(text, shell string) (allowed bool, wrong fault) {
	d := s.decide(text, shell)
	if d.Outcome != policy.Allowed {
		return false, fault{}
	}
	if d.Run == nil {
		return true, fault{"it is allowed, and not pinned", d.Reason}
	}
	decided := map[string]bool{}
	for _, seg := range d.Segments {
		decided[seg.Path], decided[seg.RealPath] = true, true
	}
	pinned, err := s.run(d.Run.Args)
	if err != nil {
		return true, fault{"pinned, it cannot be run", fmt.Sprintf("%q: %v", d.Run.Args, err)}
	}
	if p := s.stray(pinned.Programs, decided, d.Run.Args[0]); p != "" {
		return true, fault{"pinned, it runs a program that is not decided on", fmt.Sprintf("%q: %s", d.Run.Args, p)}
	}
	if wrong := s.enforce(d, text, shell, decided, pinned); wrong.kind != "" {
		return true, wrong
	}
	original, err := s.run([]string{shell, "-c", text})
	if err != nil {
		return true, fault{"it cannot be run", err.Error()}
	}
	if p := s.stray(original.Programs, decided, shell); p != "" {
		return true, fault{"as it is, it runs a program that is not decided on", p}
	}
	switch {
	case pinned.TimedOut || original.TimedOut:
		return true, fault{"it does not end", ""}
	case incomparable(text, shell, pinned, original):
	case pinned.Status != original.Status || !bytes.Equal(output(text, pinned), output(text, original)):
		return true, fault{"pinned, it does not do the same", fmt.Sprintf("%q:\n\t\t%s\n\tinstead of\n\t\t%s", d.Run.Args, describe(pinned), describe(original))}
	}
	return true, fault{}
}

// enforce runs the command in its domain and looks for a fault: it must run the same
// programs there, and have the same output.
func (s *sandbox) enforce(d policy.Decision, text, shell string, decided map[string]bool, pinned exectrace.Result) fault {
	domain := d.Enforce.Domain
	if domain == nil || domain.AnyProgram {
		s.unlimited.Add(1)
		return fault{}
	}
	s.enforced.Add(1)
	got, err := exectrace.Run(exectrace.Command{Args: d.Run.Args, Env: s.env, Dir: s.dir, Timeout: s.patience, Domain: domain})
	if err != nil {
		return fault{"in its domain, it cannot be run", err.Error()}
	}
	if p := s.stray(got.Programs, decided, d.Run.Args[0]); p != "" {
		return fault{"in its domain, it runs a program that is not decided on", p}
	}
	if len(got.Refused) > 0 {
		return fault{"the kernel refuses what was decided on", fmt.Sprintf("%q", got.Refused)}
	}
	if !incomparable(text, shell, pinned, got) && (got.Status != pinned.Status || !bytes.Equal(output(text, got), output(text, pinned))) {
		return fault{"in its domain, it does not do the same", describe(got) + " instead of " + describe(pinned)}
	}
	return fault{}
}

// stray is a program that ran although no segment of the decision has it, or no rule
// allows it. The first program is the one that runs the command.
func (s *sandbox) stray(programs []string, decided map[string]bool, first string) string {
	real, err := filepath.EvalSymlinks(first)
	if err != nil || len(programs) == 0 || programs[0] != real {
		return "not " + first
	}
	if !s.allowed[real] && !slices.Contains([]string{"bash", "dash", "sh"}, filepath.Base(real)) {
		return real
	}
	for _, p := range programs[1:] {
		if !decided[p] || !s.allowed[p] {
			return p
		}
	}
	return ""
}

// output is the standard output of a command. Its lines are sorted if several programs
// write at a time, or if it may print the environment, to which a shell adds variables.
func output(text string, r exectrace.Result) []byte {
	out := r.Stdout
	if !strings.Contains(text, "&") && !strings.Contains(text, "nv") {
		return out
	}
	lines := slices.DeleteFunc(bytes.Split(out, []byte("\n")), ofShell.Match)
	slices.SortFunc(lines, bytes.Compare)
	return bytes.Join(lines, []byte("\n"))
}

// incomparable reports whether the output of a command depends on how its programs were
// called, since their errors name them. Also, a pinned program differs from the builtin
// of that name: echo of dash interprets backslashes, and errors of printf and test have
// other exit codes.
func incomparable(text, shell string, pinned, original exectrace.Result) bool {
	plain := unquoted.Replace(text) // they may be in the text of a shell, quoted more than once
	if strings.Contains(plain, ">&") || strings.Contains(plain, "|&") || strings.Contains(plain, "&>") {
		return true
	}
	// Output goes to a file here, so two programs that write at a time may overwrite
	// each other. And files outside of the sandbox change between the two runs.
	if strings.Contains(strings.ReplaceAll(plain, "&&", ""), "&") || strings.Contains(plain, " /*") {
		return true
	}
	// A login shell has the PATH that /etc/profile sets. A pinned program was found on
	// the PATH of the command.
	if strings.Contains(plain, "bash -lc") {
		return true
	}
	dash := shell != "/bin/bash" || slices.ContainsFunc(slices.Concat(pinned.Programs, original.Programs), func(p string) bool {
		return filepath.Base(p) == "dash"
	})
	if dash && strings.Contains(text, `\`) && strings.Contains(plain, "echo") {
		return true
	}
	for _, r := range []exectrace.Result{pinned, original} {
		if builtinError.Match(r.Stdout) || builtinError.Match(r.Stderr) {
			return true
		}
	}
	return false
}

var unquoted = strings.NewReplacer(`\`, "", "'", "", `"`, "", "\n", "")

var builtinError = regexp.MustCompile(`(printf|test|echo|pwd)'?: `)

var ofShell = regexp.MustCompile(`^(PWD|OLDPWD|SHLVL|_)=`)

func describe(r exectrace.Result) string {
	return fmt.Sprintf("status %#x, programs %q, output %.300q, errors %.300q", r.Status, r.Programs, r.Stdout, r.Stderr)
}

// shrink makes the text as short as possible while it is faulty.
func shrink(text string, faulty func(string) bool) string {
	for size := len(text) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(text); {
			candidate := text[:at] + text[at+size:]
			if faulty(candidate) {
				text, shorter = candidate, true
			} else {
				at++
			}
		}
		if !shorter || size > len(text) {
			size = min(size, len(text)+1) / 2
		}
	}
	return text
}

// Generated commands that the policy allows run on real shells. A trace by the kernel
// shows that they execute only programs that the decision names, pinned or not. Pinned,
// the command has the same output.
//
// CORRAL_COMMANDS is the number of commands (1000 if unset; make fuzz has 100 000),
// CORRAL_SEED the seed of the first.
func TestDifferential(t *testing.T) {
	s := newSandbox(t)
	before := s.files(t)
	differ(t, number(t, "CORRAL_COMMANDS", 1000), s.check)
	enforced, unlimited := s.enforced.Load(), s.unlimited.Load()
	t.Logf("%d of the allowed commands ran in their domains as well, %d have none", enforced, unlimited)
	if enforced < unlimited {
		t.Errorf("only %d of %d commands are enforced: that proves little", enforced, enforced+unlimited)
	}
	for name, size := range s.files(t) {
		if was, ok := before[name]; !ok || was != size {
			t.Errorf("an allowed command wrote %s", name)
		}
		delete(before, name)
	}
	for name := range before {
		t.Errorf("an allowed command removed %s", name)
	}
}

// Without an allowlist, a deny rule finds its program wherever the text names it: the
// program never runs. CORRAL_COMMANDS and CORRAL_SEED are as for TestDifferential, but
// a quarter of the commands is run.
func TestDifferentialDeny(t *testing.T) {
	s := newSandbox(t)
	// Only the text of the command names these programs, no file does.
	write(t, filepath.Join(s.dir, "script"), "one\n", 0o644)
	write(t, filepath.Join(s.dir, "f"), "a\nb\n", 0o644)
	for i, v := range s.env {
		s.env[i] = strings.ReplaceAll(v, "evil", "one")
	}
	s.patience = 2 * time.Second // some commands wait for each other, which is no fault
	denied := []string{"evil", "rm", "reboot"}
	s.rules = policy.Rules{}
	s.rules.Security.Value, s.rules.Ask.Value = policy.SecurityFull, policy.AskOnMiss
	for _, name := range denied {
		s.rules.List = append(s.rules.List, policy.Rule{Action: policy.Deny, Pattern: name})
	}
	differ(t, number(t, "CORRAL_COMMANDS", 1000)/4, func(text, shell string) (bool, fault) {
		if s.decide(text, shell).Outcome != policy.Allowed {
			return false, fault{}
		}
		r, err := s.run([]string{shell, "-c", text})
		if err != nil {
			return true, fault{"it cannot be run", err.Error()}
		}
		for _, p := range r.Programs {
			if filepath.Dir(p) == s.bin && slices.Contains(denied, filepath.Base(p)) {
				return true, fault{"it runs a program that is denied", p}
			}
		}
		return true, fault{}
	})
}

// differ checks generated commands.
func differ(t *testing.T, count uint64, check func(text, shell string) (allowed bool, wrong fault)) {
	t.Helper()
	const most = 10
	seed := number(t, "CORRAL_SEED", 1)
	var next, allowed, failed atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= count || failed.Load() >= most {
					return
				}
				shell := "/bin/bash"
				if (seed+i)%4 == 0 {
					shell = "/bin/dash"
				}
				text := generate(seed + i)
				ok, wrong := check(text, shell)
				if ok {
					allowed.Add(1)
				}
				if wrong.kind != "" && failed.Add(1) <= most {
					least := shrink(text, func(text string) bool {
						_, w := check(text, shell)
						return w.kind == wrong.kind
					})
					_, why := check(least, shell)
					t.Errorf("seed %d, %s: %q\n\t%s\nin short: %q\n\t%s", seed+i, shell, text, wrong, least, why)
				}
			}
		})
	}
	workers.Wait()
	ran := min(next.Load(), count)
	t.Logf("%d commands from seed %d, %d of them allowed", ran, seed, allowed.Load())
	if failed.Load() == 0 && allowed.Load()*10 < ran*3 {
		t.Errorf("only %d of %d commands are allowed: that proves little", allowed.Load(), ran)
	}
}

// files are the sizes of all files of the sandbox.
func (s *sandbox) files(t *testing.T) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		sizes[path] = info.Size()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
