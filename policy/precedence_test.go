package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A situation is a command with rules, apart from security, ask and askFallback.
type situation struct {
	name string
	list []Rule
	text string
}

// situations are all cases: which rules match the command, and whether an allowlist
// allows it.
var situations = []situation{
	{"a deny rule is about it", []Rule{allow("/bin/ls"), query("ls"), deny("ls")}, "ls"},
	{"an ask rule is about it", []Rule{allow("/bin/ls"), query("ls")}, "ls"},
	{"rules forbid, and what runs cannot be told", []Rule{allow("*"), deny("rm")}, "$X"},
	{"an allow rule is about it", []Rule{allow("/bin/ls")}, "ls"},
	{"no rule is about it", nil, "ls"},
}

// decided is the outcome, and the outcome if an approval is not answered.
func decided(s situation, security Security, ask Ask, fallback Security) (Outcome, Outcome) {
	rules := rulesOf(security, ask, s.list...)
	rules.AskFallback = Setting[Security]{fallback, Source{Name: "test"}}
	d := Decide(requestOf(s.text), rules, someFiles)
	return d.Outcome, d.Fallback
}

// Every combination has one outcome. The test computes it in another way than the code.
func TestPrecedence(t *testing.T) {
	for i, s := range situations {
		for _, security := range Securities {
			for _, ask := range Asks {
				for _, fallback := range Securities {
					want := func() Outcome {
						forbidden, query, unknown, allowed := i == 0, i == 1, i == 2, i == 3
						if security == SecurityDeny || forbidden {
							return Denied
						}
						needs := query || unknown || ask == AskAlways || security == SecurityAllowlist && !allowed
						if !needs {
							return Allowed
						}
						if ask == AskOff {
							return Denied
						}
						return Asked
					}()
					wantFallback := Denied
					if i > 2 && (fallback == SecurityFull && security == SecurityFull || i == 3 && fallback != SecurityDeny && security != SecurityDeny) {
						wantFallback = Allowed
					}
					if i == 4 && security == SecurityFull && fallback == SecurityFull {
						wantFallback = Allowed
					}
					name := fmt.Sprintf("%s, security=%s ask=%s askFallback=%s", s.name, security, ask, fallback)
					got, gotFallback := decided(s, security, ask, fallback)
					if got != want {
						t.Errorf("%s: %s, want %s", name, got, want)
					}
					if gotFallback != wantFallback {
						t.Errorf("%s: without an answer %s, want %s", name, gotFallback, wantFallback)
					}
				}
			}
		}
	}
}

// outcomes is the table of docs/reference/policy.md.
func outcomes() string {
	var b strings.Builder
	b.WriteString("| | `security` | `ask=off` | `ask=on-miss` | `ask=always` | nobody answers, `askFallback=deny` | `allowlist` | `full` |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range situations {
		for _, security := range Securities {
			fmt.Fprintf(&b, "| %s | `%s` |", s.name, security)
			asked := false
			for _, ask := range slices.Backward(Asks) {
				o, _ := decided(s, security, ask, SecurityDeny)
				asked = asked || o == Asked
				fmt.Fprintf(&b, " %s |", o)
			}
			for _, fallback := range Securities {
				if _, o := decided(s, security, AskAlways, fallback); asked {
					fmt.Fprintf(&b, " %s |", o)
				} else {
					b.WriteString(" – |")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// A value that is not set counts as the strictest.
func TestUnsetIsStrict(t *testing.T) {
	d := Decide(requestOf("ls"), Rules{List: []Rule{allow("*")}}, someFiles)
	if d.Outcome != Denied || d.Fallback != Denied || d.Security.Value != SecurityDeny || d.Ask.Value != AskAlways {
		t.Errorf("%+v", d)
	}
	for _, security := range []Security{"FULL", "Full ", "none"} {
		rules := rulesOf(security, AskOff, allow("*"))
		if d := Decide(requestOf("ls"), rules, someFiles); d.Outcome != Denied {
			t.Errorf("security=%q: %s", security, d.Outcome)
		}
	}
	rules := rulesOf(SecurityFull, "never")
	if d := Decide(requestOf("ls"), rules, someFiles); d.Outcome != Asked {
		t.Errorf("ask=never: %s", d.Outcome)
	}
}

func TestStricter(t *testing.T) {
	for _, c := range []struct{ a, b, want Security }{
		{SecurityDeny, SecurityFull, SecurityDeny}, {SecurityFull, SecurityAllowlist, SecurityAllowlist}, {SecurityFull, "", SecurityFull}, {"", "", ""},
	} {
		if Stricter(Securities, c.a, c.b) != c.want || Stricter(Securities, c.b, c.a) != c.want {
			t.Errorf("of %q and %q: not %q", c.a, c.b, c.want)
		}
	}
	if Stricter(Asks, AskOff, AskOnMiss) != AskOnMiss || Stricter(Asks, AskAlways, AskOnMiss) != AskAlways {
		t.Error("asks")
	}
}

// Every decision says why, where the reason is written, and what would change it.
func TestReasons(t *testing.T) {
	where := Source{File: "/etc/corral.json5", Line: 7, Key: "tools.exec.rules[2]"}
	for _, c := range []struct {
		text    string
		rules   Rules
		outcome Outcome
		reason  string
		fix     string
	}{
		{"ls", rulesOf(SecurityAllowlist, AskOnMiss), Asked, "\"ls\": no rule allows /bin/ls", `add the rule {allow: "/bin/ls", args: []}`},
		{"git status -s", rulesOf(SecurityAllowlist, AskOnMiss), Asked, "no rule allows /usr/bin/git", `add the rule {allow: "/usr/bin/git", args: ["status", "-s"]}`},
		{"ls src/x", rulesOf(SecurityAllowlist, AskOnMiss), Asked, "no rule allows /bin/ls", `add the rule {allow: "/bin/ls", args: ["src/x"]}`},
		{"rm -rf build", rulesOf(SecurityAllowlist, AskOnMiss), Asked, "no rule allows /bin/rm", `add the rule {allow: "/bin/rm", args: ["-rf", "build"]}`},
		{"rm -rf *.o", rulesOf(SecurityAllowlist, AskOnMiss), Asked, "no rule allows /bin/rm", `add the rule {allow: "/bin/rm -rf"}`},
		{"'/srv/my tool'", rulesOf(SecurityAllowlist, AskOnMiss), Asked, "no rule allows /srv/my tool", `add the rule {allow: "'/srv/my tool'", args: []}`},
		{"ls", rulesOf(SecurityAllowlist, AskOff), Denied, "no rule allows /bin/ls; and nobody is asked, by ask=off (test)", ""},
		{"ls", rulesOf(SecurityDeny, AskOnMiss, allow("*")), Denied, "security=deny (test)", "set security to allowlist where it says deny: test"},
		{"ls", Rules{Security: Setting[Security]{SecurityDeny, Source{Name: "f:1:2: no", Fix: "mend f"}}}, Denied, "security=deny (f:1:2: no)", "mend f"},
		{"ls", rulesOf(SecurityFull, AskAlways), Asked, "ask=always (test)", ""},
		{"ls", rulesOf(SecurityFull, AskOff), Allowed, "security=full (test)", ""},
		{"ls", rulesOf(SecurityAllowlist, AskOff, allow("/bin/ls")), Allowed, "every program of it is allowed", ""},
		{"rm x", rulesOf(SecurityFull, AskOff, Rule{Action: Deny, Pattern: "rm", Reason: "use trash", Source: where}), Denied, `deny rule "rm" (/etc/corral.json5:7 tools.exec.rules[2]): use trash`, "change or remove the rule in /etc/corral.json5:7 tools.exec.rules[2]"},
		{"git push", rulesOf(SecurityFull, AskOnMiss, Rule{Action: Query, Pattern: "git push", Source: Source{File: "/etc/f"}}), Asked, `ask rule "git push" (/etc/f)`, "change or remove the rule in /etc/f"},
		{"git push", rulesOf(SecurityFull, AskOnMiss, Rule{Action: Deny, Command: "git push"}), Denied, `deny rule "that very command" (/etc/rules:1)`, ""},
		{"frob x", rulesOf(SecurityAllowlist, AskOnMiss), Asked, `frob: command not found on PATH`, ""},
		{"./frob", rulesOf(SecurityAllowlist, AskOnMiss), Asked, `./frob: there is no such file`, ""},
		{"exit 6", rulesOf(SecurityAllowlist, AskOnMiss), Asked, `exit is a builtin of the shell, which no rule can name`, ""},
		{"ulimit -n", rulesOf(SecurityAllowlist, AskOnMiss), Asked, `ulimit is a builtin of the shell`, ""},
		{"ls; ls", rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls")), Asked, `"ls" follows another command, which is refused in allowlist mode`, "run the commands one by one, or set allowlist.chaining: each"},
		{"ls && ls", rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls")), Asked, `"&&" chains commands with &&`, "run the commands one by one, or set allowlist.chaining: each"},
		{"ls >/dev/null", rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls")), Asked, `">/dev/null" redirects input or output`, "leave it out, or set allowlist.redirections: harmless"},
		{"ls >x", rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls")), Asked, `">x" redirects input or output, which is refused in allowlist mode`, ""},
		{"echo $(ls)", rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/*")), Asked, `"$(ls)" substitutes the output of a command`, ""},
		{"$X y", rulesOf(SecurityAllowlist, AskOnMiss, allow("*")), Asked, "which program it is can only be told by running it", ""},
		{"$X y", rulesOf(SecurityFull, AskOnMiss, deny("rm")), Asked, "deny rules cannot be checked", "write the command so that the programs that it runs can be told from its text"},
		{"python3 -c 'print(1)'", rulesOf(SecurityAllowlist, AskOnMiss, allow("/usr/bin/python3")), Asked, "python3 -c runs the code that it is given", `add the rule {allow: "/usr/bin/python3", args: ["-c", "print(1)"]}`},
		{"bash run.sh", rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/bash")), Asked, "no rule allows the script /srv/run.sh", `add the rule {allow: "/srv/run.sh", args: []}`},
		{"ls 'a", rulesOf(SecurityAllowlist, AskOnMiss, allow("*")), Asked, "cannot be parsed", ""},
		{"'a\nb' x", rulesOf(SecurityAllowlist, AskOnMiss), Asked, "a b: command not found on PATH", ""},
		{strings.Repeat("x", 9999), rulesOf(SecurityAllowlist, AskOnMiss), Asked, "xxx…: command not found on PATH", ""},
		{"", rulesOf(SecurityAllowlist, AskOnMiss, allow("*")), Asked, "the command runs no program that a rule could be about", ""},
		{"# ls", rulesOf(SecurityAllowlist, AskOnMiss, allow("*")), Asked, "the command runs no program", ""},
		{"ls " + strings.Repeat("é", 200), rulesOf(SecurityAllowlist, AskOnMiss), Asked, "é…\": no rule allows /bin/ls", ""},
	} {
		d := Decide(requestOf(c.text), c.rules, someFiles)
		if d.Outcome != c.outcome || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%q: %s: %s; want %s: %s", c.text, d.Outcome, d.Reason, c.outcome, c.reason)
		}
		if c.fix != "" && (len(d.Fix) == 0 || d.Fix[0] != c.fix) {
			t.Errorf("%q: fix %q, want %q", c.text, d.Fix, c.fix)
		}
		if strings.ContainsAny(d.Reason, "\n") {
			t.Errorf("%q: the reason has more than one line: %q", c.text, d.Reason)
		}
	}
}

// The rule that a fix names does allow the command.
func TestFixesHelp(t *testing.T) {
	for _, text := range []string{"ls -l", "git status -s", "'/srv/my tool' x", "~/bin/tool", "bash run.sh 1", "/srv/run.sh", "rg x | head -3", "nice ls", "git -C x log", "npm test", "make V=1", "rm -rf build", "ls 'a  b' \"it's\" '$ * ?' '\\'", "ls ''", "python3 -c 'print(1)'", "git -c core.pager=x log"} {
		rules := rulesOf(SecurityAllowlist, AskOnMiss)
		for range 5 {
			d := Decide(requestOf(text), rules, someFiles)
			if d.Outcome == Allowed {
				break
			}
			if len(d.Fix) == 0 {
				t.Errorf("%q: %s, and no fix", text, d.Reason)
				break
			}
			for _, fix := range d.Fix {
				r, ok := FixedBy(fix)
				if !ok {
					t.Fatalf("%q: fix %q", text, fix)
				}
				rules.List = append(rules.List, r)
			}
		}
		if d := Decide(requestOf(text), rules, someFiles); d.Outcome != Allowed {
			t.Errorf("%q: %s: %s, with the rules %v", text, d.Outcome, d.Reason, rules.List)
		}
		if d := Decide(requestOf(text+" more"), rules, someFiles); d.Outcome == Allowed {
			t.Errorf("%q more is allowed as well, with the rules %v", text, rules.List)
		}
	}
}

func TestSource(t *testing.T) {
	for want, s := range map[string]Source{
		"default": {Name: "default"}, "/f": {File: "/f"}, "/f:3": {File: "/f", Line: 3}, "/f a.b": {File: "/f", Key: "a.b"}, "/f:3 a.b": {File: "/f", Line: 3, Key: "a.b", Name: "x"},
	} {
		if s.String() != want {
			t.Errorf("%+v is %q", s, s)
		}
	}
}

// On a terminal git starts a pager, and a person can type a line there that runs any
// program. So a rule has to name the arguments.
func TestTerminal(t *testing.T) {
	rules := Rules{
		Security: Setting[Security]{Value: SecurityAllowlist}, Ask: Setting[Ask]{Value: AskOnMiss},
		SafeBins: Setting[[]string]{Value: []string{"head"}},
		List:     []Rule{{Action: Allow, Pattern: "/usr/bin/git log"}, {Action: Allow, Pattern: "/usr/bin/git", Args: []string{"status"}}},
	}
	for text, want := range map[string]Outcome{"git log": Asked, "git log | head": Asked, "git status": Allowed, "head -3": Allowed} {
		req := Request{Command: text, Shell: []string{"/bin/bash", "-c"}, Dir: "/tmp", Path: "/usr/bin:/bin", TTY: true}
		if d := Decide(req, rules, OS{}); d.Outcome != want {
			t.Errorf("%s on a terminal: %s: %s", text, d.Outcome, d.Reason)
		}
		if req.TTY = false; Decide(req, rules, OS{}).Outcome != Allowed {
			t.Errorf("%s without a terminal is not allowed", text)
		}
	}
}
