package policy

import (
	"slices"
	"strings"
	"testing"
)

// enforced decides with enforcement on a command of someFiles and a few more.
func enforced(text string, mode Enforce, list ...Rule) Decision {
	view := files{"/usr/bin/tar": "", "/bin/gzip": "", "/usr/bin/git": "", "/usr/lib/git-core/": "dir", "/opt/ls": "", "/usr/bin/mine": ""}
	for name, text := range someFiles {
		view[name] = text
	}
	rules := rulesOf(SecurityAllowlist, AskOnMiss, list...)
	rules.Enforce = Setting[Enforce]{mode, Source{Name: "test"}}
	req := requestOf(text)
	req.Workspace, req.Path = "/work", req.Path+":/opt"
	return Decide(req, rules, view)
}

// What the kernel is told, by the rules or by the table.
func TestDomains(t *testing.T) {
	rule := func(pattern string, runs, writes []string) Rule {
		return Rule{Action: Allow, Pattern: pattern, Runs: runs, Writes: writes}
	}
	some := []string{"/opt/a", "~/b", "~/c/"}
	for _, tt := range []struct {
		text             string
		rules            []Rule
		programs, writes string // "any"; beside the program, and the usual directories
		hint             string
	}{
		{"ls x", []Rule{allow("/bin/ls")}, "", "", `{allow: "/bin/ls", runs: [%s]}`},
		{"ls x", []Rule{rule("/bin/ls", some, some)}, "/opt/a /home/a/b /home/a/c/", "/opt/a /home/a/b /home/a/c/", ""},
		{"ls x", []Rule{rule("/bin/ls", []string{}, []string{})}, "", "", ""},
		{"ls x", []Rule{rule("/bin/ls", []string{"any"}, nil)}, "any", "", ""},
		{"ls x", []Rule{rule("/bin/ls", nil, []string{"any"})}, "", "any", ""},
		{"ls x", []Rule{rule("/bin/ls", []string{"/opt/a"}, nil), rule("/bin/l?", []string{"/opt/b"}, []string{"/srv"})}, "/opt/a /opt/b", "/srv", ""},
		{"ls x", []Rule{rule("/bin/ls", []string{"/opt/a"}, nil), allow("/bin/l?")}, "/opt/a", "", ""},
		{"tar x", []Rule{allow("/usr/bin/tar")}, "/bin/sh /bin/gzip", "", ""},
		{"git status", []Rule{rule("/usr/bin/git", []string{}, nil)}, "", "", ""},
		{"mine x", []Rule{rule("/usr/bin/mine", []string{"/opt/a"}, nil)}, "/opt/a", "", ""}, // it writes no more for that it is limited
		{"mine x", []Rule{rule("/usr/bin/mine", nil, []string{"/opt"})}, "any", "/opt", ""},
		{"opt/ls x", []Rule{rule("/opt/ls", nil, []string{"/opt"})}, "any", "/opt", ""}, // this ls is not the system's
		{"ls x | cat", []Rule{rule("/bin/ls", []string{"/opt/a"}, nil), rule("/bin/cat", nil, []string{"/opt/w"})}, "/bin/cat /opt/a", "/opt/w", ""},
		{"python3 -c x", []Rule{{Action: Allow, Pattern: "/usr/bin/python3", Args: []string{"-c", "x"}, Writes: []string{"/opt"}}}, "any", "/opt", ""},
		{"ls x", []Rule{allow("/bin/ls"), {Action: Allow, Pattern: "/bin/" + strings.Repeat("?", 2), Reason: strings.Repeat("r", maxHint)}}, "", "", `{allow: "/bin/ls", runs: [%s]}`},
	} {
		text := strings.ReplaceAll(tt.text, "opt/ls", "/opt/ls")
		d := enforced(text, EnforceRequire, tt.rules...)
		if d.Outcome != Allowed || d.Enforce == nil || d.Enforce.Domain == nil {
			t.Errorf("%s: %s, %s, %+v", text, d.Outcome, d.Reason, d.Enforce)
			continue
		}
		dom := d.Enforce.Domain
		for _, p := range strings.Fields(tt.programs) {
			if p != "any" && !slices.Contains(dom.Programs, p) {
				t.Errorf("%s: it may not run %s: %q", text, p, dom.Programs)
			}
		}
		if dom.AnyProgram != (tt.programs == "any") || !dom.AnyProgram && !slices.Contains(dom.Programs, d.Segments[0].RealPath) {
			t.Errorf("%s: any program %t, %q", text, dom.AnyProgram, dom.Programs)
		}
		if tt.programs == "" && len(dom.Programs) != 1 {
			t.Errorf("%s: it may run %q", text, dom.Programs)
		}
		want := append(strings.Fields(tt.writes), "/tmp", "/var/tmp", "/work")
		slices.Sort(want)
		if tt.writes == "any" {
			want = nil
		}
		if dom.AnyFile != (tt.writes == "any") || !slices.Equal(dom.Writable, want) {
			t.Errorf("%s: any file %t, %q, want %q", text, dom.AnyFile, dom.Writable, want)
		}
		if !dom.Required || tt.hint != "" && dom.Hint != tt.hint {
			t.Errorf("%s: required %t, hint %q", text, dom.Required, dom.Hint)
		}
	}
	if d := enforced("ls", EnforceTry, allow("/bin/ls")); d.Enforce.Domain == nil || d.Enforce.Domain.Required {
		t.Errorf("try: %+v", d.Enforce)
	}
}

// Where nothing is enforced, the reason says so.
func TestNotEnforced(t *testing.T) {
	for _, tt := range []struct {
		text  string
		mode  Enforce
		rules []Rule
		why   string
	}{
		{"ls", "", []Rule{allow("/bin/ls")}, ""},
		{"ls", EnforceOff, []Rule{allow("/bin/ls")}, "it is turned off"},
		{"rm x", EnforceTry, []Rule{allow("/bin/ls")}, "no rule allows the command"},
		{"ls x", EnforceTry, []Rule{{Action: Allow, Command: "ls x"}}, "a rule allows that very command"},
		{"mine x", EnforceTry, []Rule{allow("/usr/bin/mine")}, "mine may run any program: what it runs is not known"},
		{"/opt/ls", EnforceTry, []Rule{allow("/opt/ls")}, "it is not in a directory of the system"},
		{"python3 -c x", EnforceTry, []Rule{{Action: Allow, Pattern: "/usr/bin/python3", Args: []string{"-c", "x"}}}, "what it runs is in its arguments"},
		{"bash run.sh", EnforceTry, []Rule{allow("/srv/run.sh")}, "what the script runs is not known"},
	} {
		e := enforced(tt.text, tt.mode, tt.rules...).Enforce
		switch {
		case tt.why == "" && e != nil, tt.why != "" && (e == nil || e.Domain != nil || !strings.Contains(e.Reason, tt.why)):
			t.Errorf("%s, %s: %+v, want %q", tt.text, tt.mode, e, tt.why)
		}
	}
	full := rulesOf(SecurityFull, AskOff)
	full.Enforce.Value = EnforceRequire
	if e := Decide(requestOf("ls"), full, someFiles).Enforce; e == nil || e.Domain != nil || e.Reason != "security is not allowlist" {
		t.Errorf("%+v", e)
	}
	for _, e := range Enforces {
		if !e.Valid() {
			t.Errorf("%s is not valid", e)
		}
	}
	if Enforce("").Valid() {
		t.Error("nothing is valid")
	}
}

// What an allowlist trusts: builtins of a shell that is there, safe bins with a profile
// that are no interpreters, and wrappers of the system.
func TestTrusted(t *testing.T) {
	chaining := func(r *Rules) { r.Chaining.Value = true }
	safe := func(names ...string) func(*Rules) {
		return func(r *Rules) { r.SafeBins.Value = names }
	}
	profiles := func(r *Rules) {
		r.SafeBins.Value = []string{"bash", "python3", "nice", "git"}
		r.SafeBinProfiles = map[string]SafeBin{"bash": {}, "python3": {}, "nice": {}}
	}
	for _, tt := range []struct {
		req  Request
		set  func(*Rules)
		list []Rule
		want Outcome
	}{
		{requestOf("cd x && ls"), chaining, []Rule{allow("/bin/ls")}, Allowed},
		{requestOf("cd x && ls"), func(*Rules) {}, []Rule{allow("/bin/ls")}, Asked},
		{requestOf("cd$X x && ls"), chaining, []Rule{allow("/bin/ls")}, Asked},
		{requestOf("exit && ls"), chaining, []Rule{allow("/bin/ls")}, Asked},
		{requestOf("nice cd x"), chaining, nil, Asked},
		{Request{Args: []string{"cd", "x"}, Dir: "/srv", Path: "/bin"}, chaining, nil, Asked}, // there is no shell
		{requestOf("cat | head"), safe("head"), []Rule{allow("/bin/cat")}, Allowed},
		{requestOf("rm"), safe("rm"), nil, Asked}, // it has no profile
		{requestOf("bash"), profiles, nil, Asked},
		{requestOf("python3"), profiles, nil, Asked},
		{requestOf("git"), profiles, nil, Asked},
		{requestOf("nice ls"), profiles, nil, Asked},
		{requestOf("nice ls"), func(*Rules) {}, []Rule{allow("/bin/ls")}, Allowed},
		{requestOf("/home/a/other/nice ls"), func(*Rules) {}, []Rule{allow("/bin/ls")}, Asked},
		{requestOf("/home/a/other/bash run.sh"), func(*Rules) {}, []Rule{allow("/srv/run.sh")}, Asked},
		{requestOf("python3 -c x"), func(*Rules) {}, []Rule{allow("/usr/bin/python3")}, Asked},
		{requestOf("python3 -c x"), func(*Rules) {}, []Rule{allow("*")}, Allowed},
		{requestOf("nowhere y"), func(*Rules) {}, []Rule{allow("*")}, Asked},
		{requestOf("env A=1 ls"), func(*Rules) {}, []Rule{allow("/bin/ls")}, Asked},
		{requestOf("env LANG=C ls"), func(*Rules) {}, []Rule{allow("/bin/ls"), allow("/bin/env")}, Allowed},
		{requestOf("env TZ=/x ls"), func(*Rules) {}, []Rule{allow("/bin/ls"), allow("/bin/env")}, Asked},
		{requestOf("env TZ=$X ls"), func(*Rules) {}, []Rule{allow("/bin/ls"), allow("/bin/env")}, Asked},
		{requestOf("env A=1 ls"), func(r *Rules) { r.Env.Value = []string{"A"} }, []Rule{allow("/bin/ls"), allow("/bin/env")}, Allowed},
		{requestOf("env A=$X ls"), func(r *Rules) { r.Env.Value = []string{"A"} }, []Rule{allow("/bin/ls"), allow("/bin/env")}, Asked},
		{requestOf("env A=1 ls"), func(*Rules) {}, []Rule{{Action: Allow, Pattern: "/bin/ls", Env: []string{"A"}}, allow("/bin/env")}, Allowed},
		{requestOf("env A=2 ls"), func(*Rules) {}, []Rule{{Action: Allow, Pattern: "/bin/ls", Env: []string{"A=1"}}, allow("/bin/env")}, Asked},
		{requestOf("ls $X"), func(*Rules) {}, []Rule{{Action: Allow, Pattern: "/bin/ls", Args: []string{}}}, Asked},
		{requestOf("ls"), func(*Rules) {}, []Rule{{Action: Allow, Pattern: "/bin/ls", Args: []string{}}}, Allowed},
		{requestOf("ls $X"), func(*Rules) {}, []Rule{{Action: Allow, Pattern: "/bin/ls", ArgPattern: ".*"}}, Asked},
		{requestOf("ls x"), func(*Rules) {}, []Rule{{Action: Allow, Pattern: "/bin/ls", ArgPattern: ".*"}}, Allowed},
		{requestOf("ls x"), func(*Rules) {}, []Rule{{Action: Allow, Pattern: "/bin/ls", ArgPattern: "("}}, Asked},
		{requestOf("ls"), func(*Rules) {}, []Rule{allow("**"), allow("???????"), allow("?*")}, Asked}, // none has a path
		{requestOf("sudo ls"), func(*Rules) {}, []Rule{allow("*")}, Asked},
	} {
		view := files{"/home/a/other/nice": "", "/home/a/other/bash": "", "/usr/bin/sudo": ""}
		for name, text := range someFiles {
			view[name] = text
		}
		rules := rulesOf(SecurityAllowlist, AskOnMiss, tt.list...)
		tt.set(&rules)
		if d := Decide(tt.req, rules, view); d.Outcome != tt.want {
			t.Errorf("%q%q: %s, want %s: %s", tt.req.Command, tt.req.Args, d.Outcome, tt.want, d.Reason)
		}
	}
	tty := requestOf("ls x")
	tty.TTY = true
	for pattern, want := range map[string]Outcome{"*": Allowed, "/bin/ls": Asked} {
		if d := Decide(tty, rulesOf(SecurityAllowlist, AskOnMiss, allow(pattern)), someFiles); d.Outcome != want {
			t.Errorf("%s on a terminal: %s, %s", pattern, d.Outcome, d.Reason)
		}
	}
}
