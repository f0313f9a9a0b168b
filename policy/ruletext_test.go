package policy

import (
	"reflect"
	"testing"
)

// Reading the text of a fix gives the rule that it was made from, whatever its words are.
func TestFixedBy(t *testing.T) {
	for _, r := range []Rule{
		{Pattern: "/bin/ls"}, {Pattern: "/bin/ls", Args: []string{}}, {Pattern: "/bin/ls -l"},
		{Pattern: `/bin/x`, Args: []string{"", " ", `"`, `'`, `\`, "]}", ", args: [", "é", "<&>", "a\nb", "*"}},
		{Pattern: `'/srv/a", args: ["x"]'`, Args: []string{"y"}},
	} {
		r.Action = Allow
		if got, ok := FixedBy(fixRule(r)); !ok || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v, %v; want %+v", fixRule(r), got, ok, r)
		}
	}
	for _, fix := range []string{
		"", "run it without a terminal", "add the rule ", "add the rule {allow: 1}", `add the rule {allow: "/bin/ls"`, `add the rule {allow: "/bin/ls"}}`,
		`add the rule {deny: "ls"}`, `add the rule {allow: "/bin/ls", args: "x"}`, `add the rule {allow: "/bin/ls", args: ["x"], runs: "any"}`,
	} {
		if r, ok := FixedBy(fix); ok {
			t.Errorf("%q is the rule %+v", fix, r)
		}
	}
}

// A rule with exactly these arguments allows no others, a pattern alone does.
func TestExactRule(t *testing.T) {
	exact := Rule{Action: Allow, Pattern: `/bin/rm -rf 'a  b' *`}.Exactly()
	if want := (Rule{Action: Allow, Pattern: "/bin/rm", Args: []string{"-rf", "a  b", "*"}}); !reflect.DeepEqual(exact, want) {
		t.Fatalf("%+v, want %+v", exact, want)
	}
	none := Rule{Action: Allow, Pattern: "/bin/ls"}.Exactly()
	for _, c := range []struct {
		text string
		rule Rule
		want Outcome
	}{
		{"rm -rf build", allow("/bin/rm -rf build"), Allowed},
		{"rm -rf build /", allow("/bin/rm -rf build"), Allowed},
		{"rm -rf 'a  b' '*'", exact, Allowed},
		{"rm -rf 'a  b' '*' /", exact, Asked},
		{"rm -rf 'a  b'", exact, Asked},
		{"rm -rf 'a  b' *", exact, Asked},
		{"rm -rf 'a  b' x", exact, Asked},
		{"ls", none, Allowed},
		{"ls -l", none, Asked},
		{"bash run.sh 1", Rule{Action: Allow, Pattern: "/srv/run.sh", Args: []string{"1"}}, Allowed},
		{"bash run.sh 1 2", Rule{Action: Allow, Pattern: "/srv/run.sh", Args: []string{"1"}}, Asked},
		{"bash -x run.sh 1", Rule{Action: Allow, Pattern: "/srv/run.sh", Args: []string{"1"}}, Asked},
	} {
		if d := Decide(requestOf(c.text), rulesOf(SecurityAllowlist, AskOnMiss, c.rule), someFiles); d.Outcome != c.want {
			t.Errorf("%q with %s: %s: %s", c.text, c.rule.text(""), d.Outcome, d.Reason)
		}
	}
	// The same for a deny rule.
	deny := Rule{Action: Deny, Pattern: "rm -rf build"}.Exactly()
	for text, want := range map[string]Outcome{"rm -rf build": Denied, "rm -rf build x": Allowed, "rm -rf $X": Asked} {
		if d := Decide(requestOf(text), rulesOf(SecurityFull, AskOnMiss, deny), someFiles); d.Outcome != want {
			t.Errorf("%q with %+v: %s: %s", text, deny, d.Outcome, d.Reason)
		}
	}
}

// An invisible character is never proposed. If an argument is not known, the arguments
// before it are proposed.
func TestNarrowest(t *testing.T) {
	for text, want := range map[string]string{
		"rm -rf $X":         `{allow: "/bin/rm -rf"}`,
		"rm '*' $X":         `{allow: "/bin/rm"}`,
		"rm $'a\\u202eb'":   `{allow: "/bin/rm"}`,
		"rm x $'\\x01'":     `{allow: "/bin/rm x"}`,
		"rm 'a\nb'":         `{allow: "/bin/rm", args: ["a\nb"]}`,
		"python3 run.py x":  `{allow: "/usr/bin/python3", args: ["run.py", "x"]}`,
		"bash run.sh $X":    `{allow: "/srv/run.sh"}`,
		"bash run.sh 'a b'": `{allow: "/srv/run.sh", args: ["a b"]}`,
	} {
		d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss), someFiles)
		if len(d.Fix) == 0 || d.Fix[0] != ruleFix+want {
			t.Errorf("%q: fix %q, want %q", text, d.Fix, want)
		}
	}
}

// The hint of a domain is the whole rule, unless it cannot be shown.
func TestHint(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		want string
	}{
		{Rule{Pattern: "/usr/bin/git fetch"}, `{allow: "/usr/bin/git fetch", runs: [%s]}`},
		{Rule{Pattern: "/usr/bin/git", Args: []string{"fetch"}}, `{allow: "/usr/bin/git", args: ["fetch"], runs: [%s]}`},
		{Rule{Pattern: "/usr/bin/git", ArgPattern: "^x"}, `{allow: "/usr/bin/git", argPattern: "^x", runs: [%s]}`},
		{Rule{Pattern: "/bin/date", Args: []string{"+%s"}}, ""},
		{Rule{Pattern: "/bin/date", Args: []string{string(make([]byte, 9999))}}, ""},
	} {
		if got := hint(&c.rule); got != c.want {
			t.Errorf("%+v: %q, want %q", c.rule, got, c.want)
		}
	}
}
