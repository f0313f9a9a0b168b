package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Without askFallback nothing runs that nobody has answered for, whatever else is set.
func TestFallbackUnset(t *testing.T) {
	for _, security := range Securities {
		for _, fallback := range []Security{"", SecurityDeny} {
			rules := rulesOf(security, AskAlways, allow("/bin/ls"))
			rules.AskFallback.Value = fallback
			if d := Decide(requestOf("ls"), rules, someFiles); d.Fallback != Denied {
				t.Errorf("security=%s, askFallback=%q: %s", security, fallback, d.Fallback)
			}
		}
	}
}

// What is not valid counts as the strictest, and a command that may not run has nothing
// for the kernel to enforce.
func TestStrictWithoutSettings(t *testing.T) {
	d := Decide(requestOf("ls"), Rules{List: []Rule{allow("/bin/ls")}, Enforce: Setting[Enforce]{Value: EnforceRequire}}, someFiles)
	if d.Outcome != Denied || d.Security.Value != SecurityDeny || d.Ask.Value != AskAlways || d.Enforce != nil {
		t.Errorf("%+v", d)
	}
}

// A rule that names exactly the command, written as arguments or as text.
func TestExactCommand(t *testing.T) {
	exactly := func(a Action) Rule { return Rule{Action: a, Command: "ls x"} }
	for _, args := range []bool{false, true} {
		for text, matches := range map[string]bool{"ls x": true, "ls x y": false, "ls": false} {
			req := requestOf(text)
			if args {
				req.Command, req.Args = "", strings.Fields(text)
			}
			d := Decide(req, rulesOf(SecurityAllowlist, AskOnMiss, exactly(Allow)), someFiles)
			if (d.Outcome == Allowed) != matches || d.Miss == matches || matches && (d.Segments[0].By != byRule || d.Segments[0].Rule.Command != "ls x") {
				t.Errorf("%q, as arguments %t: allow: %s, %+v", text, args, d.Outcome, d.Segments)
			}
			for action, want := range map[Action]Outcome{Deny: Denied, Query: Asked} {
				d := Decide(req, rulesOf(SecurityAllowlist, AskOnMiss, exactly(action)), someFiles)
				if !d.Miss || matches && d.Outcome != want || d.Rule != nil != matches {
					t.Errorf("%q, as arguments %t: %s: %s, miss %t, %v", text, args, action, d.Outcome, d.Miss, d.Rule)
				}
			}
		}
	}
	req := requestOf("")
	if d := Decide(req, rulesOf(SecurityAllowlist, AskOnMiss, Rule{Action: Allow}), someFiles); d.Outcome == Allowed {
		t.Errorf("a rule without a command allows one without a text: %+v", d)
	}
}

// A command in which something is refused, and that is asked about, runs as it is.
func TestRefusedIsNotPinned(t *testing.T) {
	for _, text := range []string{"xargs ls x", "sudo ls x", "env -S 'ls x'", "nice ls x", "A=1 ls x"} {
		d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss), someFiles)
		refused := len(d.Findings) > 0 || slices.ContainsFunc(d.Segments, func(s Segment) bool { return s.Refused != "" })
		if refused && d.Run != nil {
			t.Errorf("%s: pinned as %q", text, d.Run.Args)
		}
	}
}

// Every short pattern matches what the expression matches that says the same.
func TestGlobs(t *testing.T) {
	var texts []string
	words("ab/", 5, func(s string) { texts = append(texts, s) })
	wide := strings.NewReplacer("**", ".*", "*", ".*", "?", ".")
	narrow := strings.NewReplacer("**", ".*", "*", "[^/]*", "?", "[^/]")
	words("ab/*?", 5, func(pattern string) {
		for crossing, said := range map[bool]string{true: wide.Replace(pattern), false: narrow.Replace(pattern)} {
			re := regexp.MustCompile("^(?:" + said + ")$")
			for _, s := range texts {
				if got := glob(pattern, s, crossing); got != re.MatchString(s) {
					t.Fatalf("%q, %q, crossing %t: %t", pattern, s, crossing, got)
				}
			}
		}
	})
}

// words calls f with all texts of up to n of these letters.
func words(letters string, n int, f func(string)) {
	for list := []string{""}; n >= 0; n-- {
		var longer []string
		for _, w := range list {
			f(w)
			for _, l := range letters {
				longer = append(longer, w+string(l))
			}
		}
		list = longer
	}
}
