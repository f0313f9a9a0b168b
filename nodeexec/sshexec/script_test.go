package sshexec

import (
	"bytes"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

// shells are those there may be on the other side, as far as they are here.
func shells(t *testing.T) [][]string {
	t.Helper()
	var found [][]string
	for _, s := range [][]string{{"dash"}, {"bash", "--posix"}, {"bash"}, {"busybox", "sh"}, {"mksh"}, {"zsh", "--emulate", "sh"}} {
		if path, err := exec.LookPath(s[0]); err == nil {
			found = append(found, append([]string{path}, s[1:]...))
		}
	}
	if len(found) < 2 {
		t.Fatalf("only %v are installed", found)
	}
	return found
}

var nasty = []string{
	"", " ", "plain", "two words", "it's", `"double"`, "'", "''", `\`, `a\nb`, "one\ntwo\n\n", "\n", "$HOME", "${HOME}", "$(id)", "`id`",
	"!!", "*", "~", "#", ";", "&", "|", ">x", "-n", "--", "a=b", "\t\r\x01\x1b\x7f", "日本語 😀", "\xff\xfe\x80", "\x81\x82\x88", "%s%n", "$corral_n", `'"$corral_n"'`,
}

// What a script is made of reaches the program byte for byte, whatever shell
// reads it.
func TestScriptIsLiteral(t *testing.T) {
	dir := t.TempDir()
	for _, sh := range shells(t) {
		t.Run(strings.Join(sh, " ")[strings.LastIndexByte(sh[0], '/')+1:], func(t *testing.T) {
			l := launch{Command: corral.Command{Dir: dir, Args: append([]string{"printf", `%s\0`}, nasty...)}}
			for i, v := range nasty {
				l.vars = append(l.vars, "CORRAL_TEST_"+strconv.Itoa(i)+"="+v)
			}
			got := runScript(t, sh, l)
			if diff := cmp.Diff(nasty, strings.Split(strings.TrimSuffix(got, "\x00"), "\x00")); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			l.Args = []string{"env", "-0"}
			env := strings.Split(runScript(t, sh, l), "\x00")
			for _, kv := range l.vars {
				if !slices.Contains(env, kv) {
					t.Errorf("%q is not in the environment", kv)
				}
			}
		})
	}
}

// Variables that a shell keeps for itself reach the program as others do, also where sh is
// bash, which ends when they are set.
func TestReservedVariables(t *testing.T) {
	for _, sh := range shells(t) {
		l := launch{Command: corral.Command{Dir: t.TempDir(), Args: []string{"env", "-0"}}}
		for _, name := range []string{"A", "UID", "EUID", "GID", "EGID", "PPID", "GROUPS", "Z"} {
			l.vars = append(l.vars, name+"=it's\n77")
		}
		env := strings.Split(runScript(t, sh, l), "\x00")
		for _, kv := range l.vars {
			if !slices.Contains(env, kv) {
				t.Errorf("%v: %q is not in the environment", sh, kv)
			}
		}
	}
}

// runScript has a shell read a script as a server would, and returns what the
// command prints.
func runScript(t *testing.T, shell []string, l launch) string {
	t.Helper()
	m := newMarks()
	inner, ok := strings.CutPrefix(bootstrap, "exec /bin/sh -c '")
	if !ok {
		t.Fatalf("the bootstrap is %s", bootstrap)
	}
	cmd := exec.Command(shell[0], append(slices.Clone(shell[1:]), "-c", strings.TrimSuffix(inner, "'"))...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	cmd.Stdin = strings.NewReader(l.script(m))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	p := preamble{marks: m}
	report, rest, done, err := p.add(stdout.Bytes())
	if err != nil || !done {
		t.Fatalf("no report in %q: %v", stdout.String(), err)
	}
	if pid, dir, ok := started(report); !ok || pid != cmd.Process.Pid || dir != l.Dir {
		t.Errorf("reported %q, not %d in %s", report, cmd.Process.Pid, l.Dir)
	}
	return string(rest)
}

// A server's login shell may be any. There must be nothing in what it reads
// that one of them reads in its own way.
func TestBootstrapIsPlain(t *testing.T) {
	inner := strings.TrimSuffix(strings.TrimPrefix(bootstrap, "exec /bin/sh -c '"), "'")
	if strings.ContainsAny(inner, "'!\n") || strings.Contains(inner, `\\`) || strings.HasSuffix(inner, `\`) {
		t.Errorf("%s", bootstrap)
	}
	if len(bootstrap) > 500 {
		t.Errorf("%d bytes", len(bootstrap))
	}
}

// A line that is cut off is not evaluated.
func TestScriptCutOff(t *testing.T) {
	inner := strings.TrimSuffix(strings.TrimPrefix(bootstrap, "exec /bin/sh -c '"), "'")
	for _, sh := range shells(t) {
		script := launch{Command: corral.Command{Dir: "/", Args: []string{"echo", "ran"}}}.script(newMarks())
		for _, n := range []int{0, 1, len(script) / 2, len(script) - 1} {
			cmd := exec.Command(sh[0], append(slices.Clone(sh[1:]), "-c", inner)...)
			cmd.Stdin = strings.NewReader(script[:n])
			if out, err := cmd.CombinedOutput(); err == nil || len(out) > 0 {
				t.Errorf("%v, the first %d of %d bytes: %q, %v", sh, n, len(script), out, err)
			}
		}
	}
}

func FuzzPreamble(f *testing.F) {
	m := marks{"<begin", "end>"}
	f.Add([]byte("noise<beginS12 /x"), []byte("end>rest"))
	f.Add([]byte("<beg<begin"), []byte("end>"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		whole := preamble{marks: m}
		report, rest, done, _ := whole.add(slices.Concat(a, b))
		parts := preamble{marks: m}
		report1, rest1, done1, _ := parts.add(a)
		if done1 {
			rest1 = append(slices.Clone(rest1), b...)
		} else {
			report1, rest1, done1, _ = parts.add(b)
		}
		if done != done1 || report != report1 || done && !bytes.Equal(rest, rest1) {
			t.Errorf("%q %q %v in one, %q %q %v in two", report, rest, done, report1, rest1, done1)
		}
		if report != "" {
			started(report) // does not panic
		}
		firstLine(a)
	})
}
