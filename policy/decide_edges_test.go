package policy

import (
	"strings"
	"testing"
)

// A command that needs an approval is pinned if it only runs known programs.
func TestAskedIsPinned(t *testing.T) {
	for _, tt := range []struct {
		text string
		rule Rule
		want string // empty: not pinned
	}{
		{"ls x", allow("/bin/cat"), "/bin/ls x"},
		{"rg x", allow("/bin/cat"), "/opt/brew/bin/rg x"},
		{"ls x", query("ls"), "/bin/ls x"},
		{"ls x", deny("ls"), ""},               // nobody is asked
		{"ls x; ls y", allow("/bin/cat"), ""},  // chained
		{"X=1 ls", allow("/bin/cat"), ""},      // sets a variable
		{"ls > x", allow("/bin/cat"), ""},      // writes a file
		{"cd x", allow("/bin/cat"), ""},        // does something itself
		{"nowhere x", allow("/bin/cat"), ""},   // is not there
		{"$x y", allow("/bin/cat"), ""},        // is not known
		{"", allow("/bin/cat"), ""},            // nothing
		{"eval 'ls x'", allow("/bin/cat"), ""}, // not as it is written
		{"ls $(cat y)", allow("/bin/cat"), ""}, // more than a program
		{"nice ls x", allow("/bin/cat"), "/usr/bin/nice /bin/ls x"},
	} {
		d := Decide(requestOf(tt.text), rulesOf(SecurityAllowlist, AskOnMiss, tt.rule), someFiles)
		got := ""
		if d.Run != nil {
			got = strings.Join(d.Run.Args, " ")
		}
		if got != tt.want {
			t.Errorf("%s: %s, pinned %q, want %q", tt.text, d.Outcome, got, tt.want)
		}
	}
}

// Long text in a reason is cut, at a whole character.
func TestBrief(t *testing.T) {
	for text, want := range map[string]string{
		"": "", strings.Repeat("é", 80): strings.Repeat("é", 80), strings.Repeat("é", 81): strings.Repeat("é", 80) + "…",
	} {
		if got := brief(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A deny rule wins over an ask rule, for the decision and for the segment. Of several
// rules of a kind the first is named.
func TestWhichRuleForbids(t *testing.T) {
	for _, tt := range []struct {
		rules []Rule
		want  int
		out   Outcome
	}{
		{[]Rule{query("ls"), deny("ls")}, 1, Denied},
		{[]Rule{deny("ls"), query("ls")}, 0, Denied},
		{[]Rule{deny("ls"), deny("/bin/ls")}, 0, Denied},
		{[]Rule{query("ls"), query("/bin/ls")}, 0, Asked},
		{[]Rule{query("cat"), query("/bin/ls"), allow("ls")}, 1, Asked},
	} {
		d := Decide(requestOf("ls x"), rulesOf(SecurityFull, AskOnMiss, tt.rules...), someFiles)
		line := tt.want + 1
		if d.Outcome != tt.out || d.Rule == nil || d.Rule.Source.Line != line || d.Segments[0].Rule == nil || d.Segments[0].Rule.Source.Line != line {
			t.Errorf("%+v: %s by %+v, the segment by %+v", tt.rules, d.Outcome, d.Rule, d.Segments[0].Rule)
		}
	}
}

// A fix has the arguments that are certain, and no fix is listed twice.
func TestNarrow(t *testing.T) {
	for text, want := range map[string]string{
		"git push origin": `"/usr/bin/git", args: ["push", "origin"]`, "git": `"/usr/bin/git", args: []`,
		"rm -r x": `"/bin/rm", args: ["-r", "x"]`, "rm -r $x y": `"/bin/rm -r"`,
		"rm '*' y": `"/bin/rm", args: ["*", "y"]`, "rm -f \"a\tb\"": `"/bin/rm", args: ["-f", "a\tb"]`,
	} {
		d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss), someFiles)
		if fix := strings.Join(d.Fix, "; "); fix != "add the rule {allow: "+want+"}" {
			t.Errorf("%s: %s, want %s", text, fix, want)
		}
	}
	rules := rulesOf(SecurityAllowlist, AskOnMiss)
	rules.Chaining.Value = true
	if d := Decide(requestOf("ls x; ls x"), rules, someFiles); len(d.Fix) != 1 {
		t.Errorf("%q", d.Fix)
	}
}

// A decision also says why, which change would allow the command, and which rule decided.
func TestDecisionSays(t *testing.T) {
	shell := files{"/usr/bin/rc": "-> /bin/bash"}
	for name, content := range someFiles {
		shell[name] = content
	}
	request := func(text string, env ...string) Request {
		req := requestOf(text)
		req.Env = map[string]string{}
		for _, name := range env {
			req.Env[name] = "x"
		}
		return req
	}
	safe := func(r Rules, bin string, p SafeBin) Rules {
		r.SafeBins = Setting[[]string]{Value: []string{bin}}
		r.SafeBinProfiles = map[string]SafeBin{bin: p}
		return r
	}
	list := func(rules ...Rule) Rules { return rulesOf(SecurityAllowlist, AskOnMiss, rules...) }
	for _, tt := range []struct {
		name   string
		req    Request
		rules  Rules
		out    Outcome
		reason string // a part of Reason
		fix    string // a part of Fix; "-": there is none
		inline string // Inline of the first segment
		rule   bool   // the first segment has a rule
	}{
		{"a rule allows it", request("ls x"), list(allow("/bin/ls")), Allowed, "every program", "-", "", true},
		{"no rule", request("ls x"), list(), Asked, "ls", "/bin/ls", "", false},
		{"a program that is not there", request("nowhere x"), list(allow("*")), Asked, "nowhere: ", "", "", false},
		{"a shell by another name", request("rc x"), list(allow("/usr/bin/rc")), Asked, "it is bash by another name", "", "it is bash by another name", false},
		{"code that is not known", request(`python3 -c "$X"`), list(), Asked, "runs the code", "exactly this command", "-c runs the code", false},
		{"an option that is not known and may run code", request(`git -c "core.pager=$X" log`), list(), Asked, "git -c sets", "exactly this command", "git -c sets", false},
		{"code that is known", request("python3 -c 1"), list(), Asked, "runs the code", `args: ["-c", "1"]`, "-c runs the code", false},
		{"a variable of the call", request("ls x", "FROB"), list(allow("/bin/ls")), Asked, "FROB", "FROB", "", true},
		{"a harmless variable of the call", request("ls x", "TZ"), list(allow("/bin/ls")), Allowed, "every program", "-", "", true},
		{"a wrapper is no safe bin", request("nice ls"), safe(list(allow("/bin/ls")), "nice", SafeBin{MaxPositional: 9}), Allowed, "every program", "-", "", false},
		{"a wrapper that does more is no safe bin", request("env X=1 ls x"), safe(list(allow("/bin/ls")), "env", SafeBin{MaxPositional: 9}), Asked, "env", "", "", false},
		{"a safe bin that runs code", request("sort --compress-program=ls"), safe(list(), "sort", SafeBin{MaxPositional: 9, ValueFlags: []string{"--compress-program"}}), Asked, "", "", "compress-program", false},
	} {
		d := Decide(tt.req, tt.rules, shell)
		fix := strings.Join(d.Fix, "; ")
		if d.Outcome != tt.out || !strings.Contains(d.Reason, tt.reason) || tt.fix == "-" && fix != "" || tt.fix != "-" && !strings.Contains(fix, tt.fix) {
			t.Errorf("%s: %s, %q, fix %q", tt.name, d.Outcome, d.Reason, fix)
		}
		if len(d.Segments) == 0 {
			t.Errorf("%s: no segment", tt.name)
			continue
		}
		seg := d.Segments[0]
		if !strings.Contains(seg.Inline, tt.inline) || (tt.inline == "") != (seg.Inline == "") || (seg.Rule != nil) != tt.rule {
			t.Errorf("%s: the segment runs %q, by the rule %+v", tt.name, seg.Inline, seg.Rule)
		}
		if tt.out == Asked && tt.req.Env["FROB"] == "" && seg.Reason == "" {
			t.Errorf("%s: the segment has no reason", tt.name)
		}
	}
}

// An allowed command that cannot be pinned misses an allowlist. For security=full it
// does not matter.
func TestUnwritableMissesAllowlist(t *testing.T) {
	req := requestOf("ls *")
	req.Shell = []string{"/gone/bash"}
	for security, miss := range map[Security]bool{SecurityFull: false, SecurityAllowlist: true} {
		if d := Decide(req, rulesOf(security, AskOff, allow("/bin/ls")), someFiles); d.Run != nil || d.Miss != miss {
			t.Errorf("security=%s: %s, %s, misses %t, runs %+v", security, d.Outcome, d.Reason, d.Miss, d.Run)
		}
	}
}

// A rule about the builtin "." does not match an unknown program.
func TestUnknownHasNoName(t *testing.T) {
	d := Decide(requestOf("$X y"), rulesOf(SecurityFull, AskOnMiss, deny(".")), someFiles)
	if d.Outcome != Asked || d.Rule != nil {
		t.Errorf("%s, %s, by %+v", d.Outcome, d.Reason, d.Rule)
	}
}
