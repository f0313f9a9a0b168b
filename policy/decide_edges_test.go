package policy

import (
	"strings"
	"testing"
)

// What is asked about is pinned if it does nothing but run known programs.
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

// The text in a reason is cut where it is long, in characters.
func TestBrief(t *testing.T) {
	for text, want := range map[string]string{
		"": "", strings.Repeat("é", 80): strings.Repeat("é", 80), strings.Repeat("é", 81): strings.Repeat("é", 80) + "…",
	} {
		if got := brief(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A rule that denies wins over one that asks, as the segment has it too, and the
// first of its kind is the one that is named.
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

// The hint of what to allow has the arguments that are certain, and each hint once.
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
