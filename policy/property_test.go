package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	someWords = []string{"ls", "rm", "git", "status", "push", "-f", "-rf", "x", "/bin/ls", "./run.sh", "$X", "\"$X\"", "'a b'", "~/bin/tool", "*.go", "head", "-5", "env", "A=b", "nice", "sh", "bash", "-c", "'ls; rm x'", "\"git push\"", "xargs", "sudo", "find", ".", "-exec", "{}", "\\;", "$(rm)", "python3", "echo", "cd", "/usr/bin/git", "corral", "approvals", "allow", "timeout", "5", "PATH=x", "export", "printf", "-v", "PATH", "tr", "a", "b"}
	someGlue  = []string{" ", " ", " ", " ", " ", " ", "; ", " && ", " | ", " || ", "\n", " & ", " >/dev/null ", " 2>&1 ", " >x "}

	somePatterns = []string{"ls", "rm", "git", "git push", "rm -rf", "/bin/ls", "/bin/*", "/usr/bin/git", "/usr/bin/git status", "/usr/bin/*", "/**", "*", "~/bin/*", "/srv/run.sh", "/bin/sh", "sudo", "python3", "/bin/ls -*"}
)

// aCommand draws text that resembles a command.
func aCommand(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(1, 7).Draw(t, "words") {
		b.WriteString(rapid.SampledFrom(someWords).Draw(t, "word") + rapid.SampledFrom(someGlue).Draw(t, "glue"))
	}
	return strings.TrimSpace(b.String())
}

func aRule(t *rapid.T, actions ...Action) Rule {
	r := Rule{Action: rapid.SampledFrom(actions).Draw(t, "action"), Pattern: rapid.SampledFrom(somePatterns).Draw(t, "pattern")}
	switch rapid.IntRange(0, 9).Draw(t, "narrow") {
	case 0:
		r.Args = strings.Fields(rapid.SampledFrom([]string{"", "x", "push", "-c ls"}).Draw(t, "args"))
	case 1:
		r.ArgPattern = rapid.SampledFrom([]string{"x", ".*", "push.*", "("}).Draw(t, "argPattern")
	}
	return r
}

func someRules(t *rapid.T) Rules {
	r := rulesOf(rapid.SampledFrom(Securities).Draw(t, "security"), rapid.SampledFrom(Asks).Draw(t, "ask"))
	r.AskFallback.Value = rapid.SampledFrom(Securities).Draw(t, "askFallback")
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		r.List = append(r.List, aRule(t, Allow, Allow, Allow, Deny, Query))
	}
	r.Chaining.Value = rapid.Bool().Draw(t, "chaining")
	r.Redirections.Value = rapid.Bool().Draw(t, "redirections")
	r.SafeBins.Value = []string{"head", "tr", "wc"}
	return r
}

// strictness of an outcome.
func strictness(o Outcome) int { return slices.Index([]Outcome{Allowed, Asked, Denied}, o) }

// invariants hold for every command under all rules.
func invariants(t interface {
	Fatalf(string, ...any)
	Helper()
}, req Request, rules Rules, extra Rule,
) {
	t.Helper()
	d := Decide(req, rules, someFiles)
	text := req.text()
	switch {
	case strictness(d.Outcome) < 0 || d.Fallback != Allowed && d.Fallback != Denied:
		t.Fatalf("%q: outcome %q, without an answer %q", text, d.Outcome, d.Fallback)
	case d.Reason == "" || strings.Contains(d.Reason, "\n"):
		t.Fatalf("%q: the reason %q", text, d.Reason)
	case d.Outcome == Denied && d.Rule != nil && d.Rule.Action == Deny && d.Fallback == Allowed:
		t.Fatalf("%q is denied by a rule, and allowed if nobody answers", text)
	case d.Outcome == Allowed && rules.Security.Value == SecurityAllowlist && (d.Miss || d.Run == nil):
		t.Fatalf("%q is allowed, and a miss or not pinned: %+v", text, d)
	case d.Outcome == Allowed && d.Rule != nil:
		t.Fatalf("%q is allowed, and a rule is why not: %+v", text, d.Rule)
	}
	a, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if b, _ := json.Marshal(Decide(req, rules, someFiles)); string(a) != string(b) {
		t.Fatalf("%q is decided in two ways:\n%s\n%s", text, a, b)
	}

	with := rules
	with.List = append(slices.Clone(rules.List), extra)
	e := Decide(req, with, someFiles)
	if extra.Action == Allow && (strictness(e.Outcome) > strictness(d.Outcome) || d.Fallback == Allowed && e.Fallback != Allowed) {
		t.Fatalf("%q: %s, and with one more rule that allows, %q, %s: %s", text, d.Outcome, extra.Pattern, e.Outcome, e.Reason)
	}
	if extra.Action != Allow && (strictness(e.Outcome) < strictness(d.Outcome) || d.Fallback != Allowed && e.Fallback == Allowed) {
		t.Fatalf("%q: %s, and with one more %s rule, %q, %s: %s", text, d.Outcome, extra.Action, extra.Pattern, e.Outcome, e.Reason)
	}

	for _, security := range Securities {
		other := rules
		other.Security.Value = security
		o := Decide(req, other, someFiles)
		if stricter := Stricter(Securities, security, rules.Security.Value) == security; stricter && strictness(o.Outcome) < strictness(d.Outcome) {
			t.Fatalf("%q: %s, and with security=%s %s", text, d.Outcome, security, o.Outcome)
		} else if stricter && d.Fallback != Allowed && o.Fallback == Allowed {
			t.Fatalf("%q: without an answer %s, and with security=%s %s", text, d.Fallback, security, o.Fallback)
		}
	}
	for _, ask := range Asks {
		other := rules
		other.Ask.Value = ask
		// Asked is laxer than the Denied of ask=off.
		if o := Decide(req, other, someFiles); Stricter(Asks, ask, rules.Ask.Value) == ask && d.Outcome != Allowed && o.Outcome == Allowed {
			t.Fatalf("%q: %s, and with ask=%s %s", text, d.Outcome, ask, o.Outcome)
		}
	}

	if d.Outcome == Allowed && d.Run != nil {
		again := req
		again.Command, again.Args = "", d.Run.Args
		if args := d.Run.Args; req.Command != "" && len(args) == 3 && args[0] == req.Shell[0] && args[1] == "-c" {
			again.Command, again.Args = args[2], nil // the shell that reads the command is no part of it
		}
		if p := Decide(again, rules, someFiles); p.Outcome != Allowed {
			t.Fatalf("%q is allowed, and what then runs, %q, is not: %s", text, d.Run.Args, p.Reason)
		}
	}
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := requestOf(aCommand(t))
		if rapid.Bool().Draw(t, "sh") {
			req.Shell = []string{"/bin/sh", "-c"}
		}
		if rapid.IntRange(0, 4).Draw(t, "argv") == 0 {
			req.Command, req.Args = "", strings.Fields(req.Command)
		}
		invariants(t, req, someRules(t), aRule(t, Allow, Deny, Query))
	})
}

// fuzzRules are rules of every kind.
func fuzzRules(mode uint8) Rules {
	r := rulesOf(Securities[mode%3], Asks[mode/3%3], allow("/bin/ls"), allow("/usr/bin/git status"), allow("/srv/*"), allow("~/bin/*"), deny("rm"), deny("git push --force"), query("git push"))
	r.AskFallback.Value = Securities[mode/9%3]
	r.Chaining.Value, r.Redirections.Value = mode&64 != 0, mode&128 != 0
	r.SafeBins.Value = []string{"head", "tr", "wc", "sort", "grep"}
	return r
}

func FuzzDecide(f *testing.F) {
	for i, text := range []string{"ls -la", "git status | head -5", "sh -c 'ls; rm x'", "cat <<'X'\nrm\nX", "ls $(rm x) `rm`", "for i in a; do git push --force; done", "env -S 'rm x'", "find . -exec rm {} \\;", "PATH=x ls", "ls >/dev/null 2>&1 && echo ${X@P}", "corral approvals allow x", "a[$X]=1; ((a[X]))", "bash -c \"bash -c 'ls'\"", "ls \\\n-l # x", "f(){ f|f& };f"} {
		for _, mode := range []uint8{1, 4, 5, 193, 194, 255} {
			f.Add(text, mode+uint8(i)*9, i%2 == 0, "*")
		}
	}
	f.Fuzz(func(t *testing.T, text string, mode uint8, bash bool, pattern string) {
		if len(text) > 4096 || len(pattern) > 256 {
			return
		}
		req := requestOf(text)
		if !bash {
			req.Shell = []string{"/bin/sh", "-c"}
		}
		for _, action := range []Action{Allow, Query, Deny} {
			invariants(t, req, fuzzRules(mode), Rule{Action: action, Pattern: pattern, Source: Source{Name: "fuzz"}})
		}
	})
}
