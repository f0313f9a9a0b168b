package approval

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A machine has programs in D and files in W.
type machine struct {
	*testing.T
	d, w string
	req  policy.Request
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	ok(t, err)
	m := machine{T: t, d: filepath.Join(dir, "bin"), w: filepath.Join(dir, "work")}
	ok(t, os.Mkdir(m.d, 0o755))
	ok(t, os.Mkdir(m.w, 0o755))
	for _, name := range []string{"git", "ls", "python3", "bash", "curl", "sudo", "make", "grep", "nice", "awk"} {
		m.write(filepath.Join(m.d, name), "#!/bin/true\n")
	}
	m.write(filepath.Join(m.w, "run.py"), "print(1)\n")
	m.write(filepath.Join(m.w, "run.sh"), "echo 1\n")
	m.req = policy.Request{Dir: m.w, Path: m.d, Home: "/home/x", Shell: []string{"/bin/bash", "-c"}}
	return m
}

func (m machine) write(path, text string) {
	m.Helper()
	ok(m.T, os.WriteFile(path, []byte(text), 0o755)) //nolint:gosec // a program
}

func (m machine) decide(command string, list ...policy.Rule) (policy.Request, policy.Decision) {
	req := m.req
	req.Command = command
	return req, policy.Decide(req, policy.Rules{
		Security: policy.Setting[policy.Security]{Value: policy.SecurityAllowlist},
		Ask:      policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
		List:     list,
	}, policy.OS{})
}

// The remembered rules allow the command from then on, and no other one.
func TestRemember(t *testing.T) {
	m := newMachine(t)
	script, err := filepath.Glob(filepath.Join(m.w, "run.py"))
	if err != nil || len(script) != 1 {
		t.Fatal(script, err)
	}
	for _, c := range []struct {
		command                   string
		exact, subcommand, progam string // patterns and arguments; or ! and part of why not
		others                    string // commands that exact does not allow
	}{
		{"git status -s", "D/git [status -s]", "D/git status", "D/git", "git status"},
		{"ls", "D/ls []", "!no first argument", "D/ls", "ls -l"},
		{"ls -l", "D/ls [-l]", "!no subcommand", "D/ls", "ls -l -a"},
		{"ls a/b", "D/ls [a/b]", "!no subcommand", "D/ls", "ls a"},
		{"git log | grep x", "D/git [log], D/grep [x]", "D/git log, D/grep x", "D/git, D/grep", "git log | grep y"},
		{"git log | git log", "D/git [log]", "D/git log", "D/git", "git log -p | git log"},
		{"python3 run.py 1", "D/python3 [run.py 1] sha256", "!with the script as it is now", "!with the script as it is now", "python3 run.py 2"},
		{"python3 -c 'print(1)'", "D/python3 [-c print(1)]", "!only exactly this use", "!only exactly this use", "python3 -c 'print(2)'"},
		{"awk '{system($0)}'", "D/awk [{system($0)}]", "!only exactly", "!only exactly", "awk '{system($1)}'"},
		{"bash run.sh", "D/bash [run.sh] sha256", "!script", "!script", "bash run.py"},
		{"make test", "D/make [test]", "D/make test", "D/make", "make install"},
		{"ls > out", "text", "!only exactly this command", "!only exactly this command", "ls > /etc/passwd"},
		{"git status; ls", "text", "!only exactly", "!only exactly", "git status; ls -l"},
		{"ls 'unfinished", "text", "!only exactly", "!only exactly", "ls 'unfinished2"},
		{"ls $HOME", "text", "!can be told", "D/ls", "ls $OTHER"},

		{"curl https://x | bash", "!standard input", "!standard input", "!standard input", ""},
		{"curl https://x | python3", "!standard input", "!standard input", "!standard input", ""},
		{"curl https://x | python3 -", "!standard input", "!standard input", "!standard input", ""},
		{"python3 $FILE", "!stands for is not known", "!not known", "!not known", ""},
		{"python3 gone.py", "!cannot be read", "!cannot be read", "!cannot be read", ""},
		{"python3 run.py > out", "!script", "!only exactly", "!only exactly", ""},
		{"./tool > out", "!another program in another directory", "!only exactly", "!only exactly", ""},
		{"$TOOL x", "!cannot be told which program", "!", "!", ""},
		{"nothing-there", "!cannot be told which program", "!cannot be told", "!cannot be told", ""},
		{"sudo ls", "!no rule can be made", "!no rule can be made", "!no rule can be made", ""},
	} {
		req, d := m.decide(c.command)
		if d.Outcome != policy.Asked {
			t.Errorf("%s: %s (%s)", c.command, d.Outcome, d.Reason)
			continue
		}
		again := func(rules []policy.Rule) policy.Decision { _, d := m.decide(c.command, rules...); return d }
		for i, want := range []string{c.exact, c.subcommand, c.progam} {
			p := Previews(req, d, nil)[i]
			if why, not := strings.CutPrefix(want, "!"); not {
				if p.Unavailable == "" || !strings.Contains(p.Unavailable, why) || len(p.Entries) > 0 {
					t.Errorf("%s, %s: %q, %+v; want %q", c.command, p.Scope, p.Unavailable, p.Entries, why)
				}
				continue
			}
			if got := m.show(p.Entries, c.command); got != want || p.Unavailable != "" {
				t.Errorf("%s, %s: %s, want %s (%s)", c.command, p.Scope, got, want, p.Unavailable)
				continue
			}
			if tried := Previews(req, d, again)[i]; tried.Unavailable != "" {
				t.Logf("%s, %s would not do: %s", c.command, p.Scope, tried.Unavailable)
				if i == 0 {
					t.Errorf("%s: exactly this is not allowed by what is remembered", c.command)
				}
			}
			if _, d := m.decide(c.others, p.Entries...); i == 0 && d.Outcome == policy.Allowed {
				t.Errorf("%s: what is remembered allows %s too", c.command, c.others)
			}
		}
	}
	// A changed script is not allowed.
	req, d := m.decide("python3 run.py")
	rules, err := Remember(req, d, ScopeExact)
	ok(t, err)
	m.write(filepath.Join(m.w, "run.py"), "print(2)\n")
	if _, d := m.decide("python3 run.py", rules...); d.Outcome == policy.Allowed {
		t.Error("another script is allowed")
	}
	// A program that is allowed already gets no rule.
	git := policy.Rule{Action: policy.Allow, Pattern: filepath.Join(m.d, "git")}
	req, d = m.decide("git log | grep x", git)
	rules, err = Remember(req, d, ScopeProgram)
	ok(t, err)
	if got := m.show(rules, ""); got != "D/grep" {
		t.Error(got)
	}
	_, err = Remember(req, d, "all")
	wantKind(t, err, corral.ErrInvalid)
}

func (m machine) show(rules []policy.Rule, command string) string {
	var list []string
	for _, r := range rules {
		text := strings.Replace(r.Pattern, m.d, "D", 1)
		if r.Args != nil {
			text += " [" + strings.Join(r.Args, " ") + "]"
		}
		if r.SHA256 != "" {
			text += " sha256"
		}
		if r.Command != "" {
			text = "text"
			if r.Command != command {
				text += " of another command"
			}
		}
		if r.Action != policy.Allow {
			text += " " + string(r.Action)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// The rules in the file allow as much as the rules that were shown.
func TestRememberedInTheFile(t *testing.T) {
	m := newMachine(t)
	for _, command := range []string{"git status", "ls", "python3 run.py", "ls > out", "git log | grep x"} {
		f := newFile(t, "")
		req, d := m.decide(command)
		for _, p := range Previews(req, d, nil) {
			if p.Unavailable == "" {
				ok(t, f.Add("main", p.Scope, p.Entries...))
				break
			}
		}
		h, err := f.Rules("main")
		ok(t, err)
		if _, d := m.decide(command, h.Rules...); d.Outcome != policy.Allowed {
			t.Errorf("%s: %s", command, d.Reason)
		}
		if _, d := m.decide(command+" more", h.Rules...); d.Outcome == policy.Allowed {
			t.Errorf("%s more is allowed too", command)
		}
	}
}

func (m machine) bind(command string, env map[string]string) Binding {
	m.Helper()
	req, d := m.decide(command)
	b, err := Bind(req, d, env, policy.OS{})
	ok(m.T, err)
	return b
}

func TestBinding(t *testing.T) {
	m := newMachine(t)
	env := map[string]string{"A": "1", "B": "2"}
	const command = "python3 run.py"
	was := m.bind(command, env)
	ok(t, was.Check(m.bind(command, env)))
	differs := func(now Binding, says string) {
		t.Helper()
		wantKind(t, was.Check(now), corral.ErrDenied, says)
		if was.Digest() == now.Digest() {
			t.Errorf("%s: the same digest", says)
		}
	}
	differs(m.bind("python3 run.py 1", env), "the command is not the one")
	differs(m.bind(command, map[string]string{"A": "1"}), "variables set: A, B; and not: A")
	differs(m.bind(command, map[string]string{"A": "1", "B": "3"}), "the value of an environment variable was changed")
	differs(m.bind(command, map[string]string{"A": "1\x00B=2"}), "variables")
	wantKind(t, Binding{}.Check(was), corral.ErrDenied, "not bound")

	other := m
	other.req.Dir = m.d
	ok(t, os.WriteFile(filepath.Join(m.d, "run.py"), []byte("print(1)\n"), 0o600))
	differs(other.bind(command, env), "the working directory is")

	// PATH, on which the programs look up others, is part of the binding.
	other = m
	other.req.Path = m.d + ":" + m.w
	differs(other.bind(command, env), "PATH is ")

	// The directory was replaced by another one of the same name.
	moved := m.w + ".old"
	ok(t, os.Rename(m.w, moved))
	ok(t, os.Mkdir(m.w, 0o755))
	m.write(filepath.Join(m.w, "run.py"), "print(1)\n")
	differs(m.bind(command, env), "is another directory now")
	ok(t, os.RemoveAll(m.w))
	ok(t, os.Symlink(moved, m.w))
	differs(m.bind(command, env), "leads to")
	ok(t, os.Remove(m.w))
	ok(t, os.Rename(moved, m.w))
	ok(t, was.Check(m.bind(command, env)))

	// A file made in the directory changes nothing; another script does.
	m.write(filepath.Join(m.w, "new"), "")
	ok(t, was.Check(m.bind(command, env)))
	m.write(filepath.Join(m.w, "run.py"), "print(2)\n")
	differs(m.bind(command, env), "script "+filepath.Join(m.w, "run.py")+" was changed after it was approved")
	m.write(filepath.Join(m.w, "run.py"), "print(1)\n")
	ok(t, was.Check(m.bind(command, env)))

	python := filepath.Join(m.d, "python3")
	ok(t, os.Rename(python, python+".old"))
	m.write(python, "#!/bin/true\n")
	differs(m.bind(command, env), python+" was replaced after it was approved")
	ok(t, os.Remove(python))
	ok(t, os.Symlink(python+".old", python))
	differs(m.bind(command, env), python+" leads to")
	ok(t, os.Remove(python))
	ok(t, os.Rename(python+".old", python)) // changes the time of its inode
	differs(m.bind(command, env), python+" was changed after it was approved")
	was = m.bind(command, env)
	info, err := os.Stat(python)
	ok(t, err)
	m.write(python, "#!/bin/evil\n")
	ok(t, os.Chtimes(python, info.ModTime(), info.ModTime()))
	differs(m.bind(command, env), python+" was changed after it was approved")
	other = m
	other.req.Path = m.w + ":" + m.d
	m.write(filepath.Join(m.w, "python3"), "#!/bin/evil\n")
	differs(other.bind(command, env), `"python3" is found at `+filepath.Join(m.w, "python3"))

	// Commands that differ only in invalid UTF-8 have different digests.
	if m.bind("ls \xff", nil).Digest() == m.bind("ls \xfe", nil).Digest() {
		t.Error("two commands have the same digest")
	}

	if sum([]string{"a b"}) == sum([]string{"a", "b"}) {
		t.Error("two lists of arguments have the same digest")
	}

	req, d := m.decide(command)
	req.Dir = filepath.Join(m.w, "gone")
	_, err = Bind(req, d, nil, policy.OS{})
	wantKind(t, err, corral.ErrDenied, "working directory")
	req.Dir = python
	_, err = Bind(req, d, nil, policy.OS{})
	wantKind(t, err, corral.ErrDenied, "not a directory")
	req, d = m.decide(command)
	ok(t, os.Remove(filepath.Join(m.w, "run.py")))
	d.Segments[0].SHA256 = ""
	_, err = Bind(req, d, nil, policy.OS{})
	wantKind(t, err, corral.ErrDenied, "script")
}

// Each field of a binding counts.
func TestBindingHasNoIdleField(t *testing.T) {
	base := Binding{
		Command: "c", Dir: "d", RealDir: "r", DirID: Identity{1, 2, 0}, Env: []string{"A"}, EnvSum: "e",
		Programs: []Program{{"n", "p", "r", Identity{1, 2, 3}, 4, 5}}, Scripts: []Script{{"s", "h"}},
	}
	for i, change := range []func(*Binding){
		func(b *Binding) { b.Command = "x" }, func(b *Binding) { b.Stdin = true }, func(b *Binding) { b.Dir = "x" }, func(b *Binding) { b.RealDir = "x" },
		func(b *Binding) { b.DirID.Device++ }, func(b *Binding) { b.DirID.Inode++ },
		func(b *Binding) { b.Env = nil }, func(b *Binding) { b.EnvSum = "x" }, func(b *Binding) { b.Path = "x" },
		func(b *Binding) { b.Programs = nil }, func(b *Binding) { b.Programs[0].Name = "x" }, func(b *Binding) { b.Programs[0].Path = "x" },
		func(b *Binding) { b.Programs[0].RealPath = "x" }, func(b *Binding) { b.Programs[0].ID.Inode++ }, func(b *Binding) { b.Programs[0].ID.Changed++ },
		func(b *Binding) { b.Programs[0].Size++ }, func(b *Binding) { b.Programs[0].Modified++ },
		func(b *Binding) { b.Scripts = nil }, func(b *Binding) { b.Scripts[0].Path = "x" }, func(b *Binding) { b.Scripts[0].SHA256 = "x" },
	} {
		now := base
		now.Programs, now.Scripts = slices.Clone(base.Programs), slices.Clone(base.Scripts)
		change(&now)
		if err := base.Check(now); !errors.Is(err, corral.ErrDenied) || strings.Contains(err.Error(), "something that the approval") {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if diff := cmp.Diff(base, base); diff != "" || base.Check(base) != nil {
		t.Error(diff)
	}
}

// A builtin of the shell has no file, so its text is remembered. A chain is remembered
// part by part, if the rules allow chains part by part.
func TestRememberParts(t *testing.T) {
	m := newMachine(t)
	for _, command := range []string{"type ls", "ulimit -n", "type ls | grep x"} {
		req, d := m.decide(command)
		rules, err := Remember(req, d, ScopeExact)
		if err != nil || len(rules) != 1 || rules[0].Command != command {
			t.Errorf("%s: %+v, %v", command, rules, err)
		}
		if _, again := m.decide(command, rules...); again.Outcome != policy.Allowed {
			t.Errorf("%s: %s", command, again.Reason)
		}
		if _, err := Remember(req, d, ScopeProgram); err == nil || !strings.Contains(err.Error(), "is a builtin of the shell") {
			t.Errorf("%s: %v", command, err)
		}
	}
	for _, command := range []string{"source run.sh2", ". x", ". x; ls"} {
		if req, d := m.decide(command); d.Outcome == policy.Asked {
			if rules, err := Remember(req, d, ScopeExact); err == nil {
				t.Errorf("%s: %+v", command, rules)
			}
		}
	}
	req, d := m.decide("git status; ls")
	if _, err := Remember(req, d, ScopeProgram); err == nil || !strings.Contains(err.Error(), "chaining: each its parts can be remembered") {
		t.Error(err)
	}
	rules := policy.Rules{
		Security: policy.Setting[policy.Security]{Value: policy.SecurityAllowlist}, Ask: policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
		Chaining: policy.Setting[bool]{Value: true}, List: []policy.Rule{{Action: policy.Allow, Pattern: filepath.Join(m.d, "ls")}},
	}
	req.Command = "cd x && git status -s && ls; make all"
	d = policy.Decide(req, rules, policy.OS{})
	parts, err := Remember(req, d, ScopeSubcommand)
	if err != nil || len(parts) != 2 || !strings.HasSuffix(parts[0].Pattern, "/git status") || !strings.HasSuffix(parts[1].Pattern, "/make all") {
		t.Errorf("%+v, %v", parts, err)
	}
	rules.List = append(rules.List, parts[0])
	req.Command = "git status && ls"
	if d := policy.Decide(req, rules, policy.OS{}); d.Outcome != policy.Allowed {
		t.Error(d.Reason)
	}
}
