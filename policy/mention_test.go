package policy

import (
	"strings"
	"testing"
)

// A name is mentioned if it is a word of its own, or may be the value of a flag.
func TestMentioned(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "rm": true, "rm x": true, "x rm": true, "/bin/rm": true, "'rm'": true, "a;rm;b": true, "$(rm)": true, "`rm`": true,
		"\trm\n": true, "(rm)": true, "x=rm": true, "rm/": true, "{rm,x}": true, "@rm[": true, "[rm`": true, "{rm:": true, "/rm{": true,

		"arm": false, "rma": false, "zrm": false, "rmz": false, "Arm": false, "rmA": false, "Zrm": false, "rmZ": false,
		"0rm": false, "rm0": false, "9rm": false, "rm9": false, "_rm": false, "rm_": false, "-rm": false, "rm-": false, ".rm": false, "rm.": false,
		"\u00e9rm": false, "rm\u00e9": false, "\x80rm": false, "rm\x80": false, "r m": false, "RM": false,

		"arm rm": true, "armrm": false, "rmrm rm": true, "rmx arm": false, "rmx /rm": true,

		// Values of flags.
		"-Irm": true, "-aIrm": true, "-abIrm": true, "-abcIrm": false, "-I0rm": false, "x -Irm": true, "x-Irm": false, "--Irm": false, "-azAZrm": false,
		"-zrm": true, "-arm": true, "-Arm": true, "-Zrm": true, "-@rm": true, "-[rm": true, "-`rm": true, "-{rm": true, "'-Irm": true, "-I rm": true, "-Irmx": false, "Irm": false, "+Irm": false, "9-Irm": false,
	} {
		if got := mentioned(text, "rm"); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if !mentioned("x", "") {
		t.Error("no name is not mentioned")
	}
}

// Only arguments that must be in the text literally are looked for: no flags, no globs.
func TestAllMentioned(t *testing.T) {
	for words, want := range map[string]bool{
		"": true, "push": true, "push origin": true, "push other": false, "other push": false, "-f": true, "--force push": true, "ot*": true, "o?her push": true, "pus": false,
	} {
		if got := allMentioned("git push origin", strings.Fields(words)); got != want {
			t.Errorf("%q: %v, want %v", words, got, want)
		}
	}
}

// A command is asked about if its code in another language mentions a forbidden
// program. Other code is not asked about.
func TestMentions(t *testing.T) {
	view := files{"/bin/bash": "", "/usr/bin/python3": "", "/usr/bin/awk": "", "/bin/ls": "", "/bin/git": "", "/bin/rm": "", "/bin/echo": ""}
	for _, tt := range []struct {
		rule Rule
		text string
		want Outcome
	}{
		{deny("rm"), `python3 -c 'os.system("rm x")'`, Asked},
		{deny("rm"), `python3 -c 'print("warm")'`, Allowed},
		{deny("rm"), `awk 'BEGIN { system("rm x") }'`, Asked},
		{deny("rm"), `ls rm`, Allowed},
		{deny("/bin/rm"), `python3 -c 'os.system("rm x")'`, Asked},
		{query("rm"), `python3 -c 'os.system("rm x")'`, Asked},
		{allow("rm"), `python3 -c 'os.system("rm x")'`, Allowed},
		{deny("r?"), `python3 -c 'os.system("ls rx")'`, Allowed},
		{deny("git push"), `python3 -c 'os.system("git push")'`, Asked},
		{deny("git push"), `python3 -c 'os.system("git pull")'`, Allowed},
		{deny("rm"), `python3 -c 'os.system("r''m x")'`, Asked},
		{deny("git push"), `git -c alias.x=pu\sh x`, Asked},
		{deny("git push"), `git -c alias.x=pu\ll x`, Allowed},
		{deny("git push --force"), `python3 -c 'os.system("git push -f")'`, Asked},
		{deny("rm"), `PAGER=rm ls`, Asked},
		{deny("rm"), `COLOR=warm ls`, Allowed},
	} {
		if d := Decide(requestOf(tt.text), rulesOf(SecurityFull, AskOnMiss, tt.rule), view); d.Outcome != tt.want {
			t.Errorf("%s, with %s %q: %s (%s), want %s", tt.text, tt.rule.Action, tt.rule.Pattern, d.Outcome, d.Reason, tt.want)
		}
	}
}
