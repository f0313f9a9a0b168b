package policy

import (
	"strings"
	"testing"
)

// Variables of the call, assignments in the text, and settings of env have the same
// outcome.
func TestVariables(t *testing.T) {
	for _, c := range []struct {
		variable string
		listed   []string // tools.exec.env.allow
		rule     []string // env of the rule on the program
		want     Outcome
	}{
		{"LANG=C.UTF-8", nil, nil, Allowed},
		{"LANG=", nil, nil, Allowed},
		{"LC_ALL=de_DE.UTF-8", nil, nil, Allowed},
		{"LC_ALL=sr_RS.utf8@latin", nil, nil, Allowed},
		{"LC_ALL=zh_CN.GBK", nil, nil, Asked}, // in which a byte of a letter can be a backslash
		{"LC_ALL=zh_TW", nil, nil, Asked},
		{"LC_ALL=../x", nil, nil, Asked},
		{"LANG=/tmp/x.UTF-8", nil, nil, Asked},
		{"LANGUAGE=de:en", nil, nil, Allowed},
		{"LANGUAGE=../../tmp/x", nil, nil, Asked},
		{"LANGUAGE=..", nil, nil, Asked},
		{"TZ=Europe/Berlin", nil, nil, Allowed},
		{"TZ=CET-1CEST,M3.5.0/2,M10.5.0/3", nil, nil, Allowed},
		{"TZ=/etc/shadow", nil, nil, Asked},
		{"TZ=:/etc/shadow", nil, nil, Asked},
		{"TZ=a/../../../etc/shadow", nil, nil, Asked},
		{"TERM=xterm-256color", nil, nil, Allowed},
		{"TERM=../x", nil, nil, Asked},
		{"COLORTERM=truecolor", nil, nil, Allowed},
		{"NO_COLOR=1", nil, nil, Allowed},
		{"CI=true", nil, nil, Allowed},
		{"CI=x y", nil, nil, Asked},
		{"COLUMNS=80", nil, nil, Allowed},
		{"COLUMNS=a[0]", nil, nil, Asked},
		{"SOURCE_DATE_EPOCH=0", nil, nil, Allowed},
		{"QWEN_CODE=1", nil, nil, Allowed},
		{"ASIMI_CLI=1", nil, nil, Allowed},
		{"QWEN_CODE=/x", nil, nil, Asked},
		{"lang=C", nil, nil, Asked},
		{"LANGX=C", nil, nil, Asked},
		{"LOCPATH=/x", nil, nil, Asked},
		{"NLSPATH=/x", nil, nil, Asked},
		{"TEXTDOMAINDIR=/x", nil, nil, Asked},
		{"FOO=bar", nil, nil, Asked},
		{"FOO=bar", []string{"BAR"}, nil, Asked},
		{"FOO=bar", []string{"FOO"}, nil, Allowed},
		{"FOO=bar", []string{"FOO=bar"}, nil, Allowed},
		{"FOO=baz", []string{"FOO=bar"}, nil, Asked},
		{"FOO=bar", nil, []string{"FOO"}, Allowed},
		{"FOO=bar", nil, []string{"FO", "FOOO"}, Asked},
		{"FOO=bar", nil, []string{EnvEntry(Variable{Name: "FOO", SHA256: sumValue("bar")})}, Allowed},
		{"FOO=baz", nil, []string{EnvEntry(Variable{Name: "FOO", SHA256: sumValue("bar")})}, Asked},
		{"FOO=sha256:x", nil, []string{"FOO=sha256:x"}, Allowed},
	} {
		rules := rulesOf(SecurityAllowlist, AskOnMiss, Rule{Action: Allow, Pattern: "/usr/bin/git status", Env: c.rule}, allow("/bin/ls"), allow("/bin/env"))
		rules.Env.Value = c.listed
		name, value, _ := strings.Cut(c.variable, "=")
		call := decide("git status", rules)
		if call.Outcome != Allowed || call.Variables != nil {
			t.Fatalf("%+v", call)
		}
		for how, d := range map[string]Decision{
			"of the call":        decideWith(map[string]string{name: value}, "git status", rules),
			"before the program": decide(name+"="+QuotePattern(value)+" git status", rules),
			"of env":             decide("env "+QuotePattern(c.variable)+" git status", rules),
		} {
			if d.Outcome != c.want {
				t.Errorf("%s %s: %s (%s), want %s", c.variable, how, d.Outcome, d.Reason, c.want)
			}
			if d.Outcome == Asked && !strings.Contains(d.Reason+strings.Join(d.Fix, " "), name) {
				t.Errorf("%s %s: it does not say which: %s; %q", c.variable, how, d.Reason, d.Fix)
			}
		}
		// A variable of the call is set for all programs: each needs a rule that names it.
		if d := decideWith(map[string]string{name: value}, "git status | ls", rules); c.rule != nil && d.Outcome != Asked {
			t.Errorf("%s: %s for a pipeline with a program of which no rule has it", c.variable, d.Outcome)
		}
		rules.Security.Value = SecurityFull
		if d := decideWith(map[string]string{name: value}, "git status", rules); d.Outcome != Allowed {
			t.Errorf("%s: %s under security full", c.variable, d.Outcome)
		}
	}
}

func decideWith(env map[string]string, text string, rules Rules) Decision {
	r := requestOf(text)
	r.Env = env
	return Decide(r, rules, someFiles)
}

func decide(text string, rules Rules) Decision { return decideWith(nil, text, rules) }

func TestVariablesOfTheText(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, Rule{Action: Allow, Pattern: "/usr/bin/git", Env: []string{"FOO", "PATH", "BASH_ENV"}}, allow("/bin/ls"))
	rules.Chaining.Value = true
	for text, want := range map[string]Outcome{
		"LANG=C git status":                      Allowed,
		"LANG=C NO_COLOR=1 git status | ls":      Allowed,
		"FOO=1 git status && FOO=2 git log":      Allowed,
		"FOO=1 git status && FOO=2 ls":           Asked,
		"FOO=1 git status; BAR=2 git log":        Asked,
		"export LANG=C && git status && ls":      Allowed,
		"export LANG=C NO_COLOR=1; ls":           Allowed,
		"export FOO=1; git status":               Allowed,
		"export FOO=1; git status; ls":           Asked,
		"export -n LANG=C; ls":                   Asked,
		"export LANG; ls":                        Asked,
		"declare LANG=C; ls":                     Asked,
		"readonly LANG=C; ls":                    Asked,
		"LANG=C; ls":                             Asked,
		"LANG=$X ls":                             Asked,
		"LANG=$(ls) ls":                          Asked,
		"LANG=`ls` ls":                           Asked,
		"LANG+=C ls":                             Asked,
		"LANG[0]=C ls":                           Asked,
		"LANG=(C) ls":                            Asked,
		"LANG=~ ls":                              Asked,
		"PATH=/x git status":                     Asked,
		"BASH_ENV=/x git status":                 Asked,
		"export PATH=/x; git status":             Asked,
		"env PATH=/x git status":                 Asked,
		"env -i FOO=1 git status":                Asked,
		"env -u LANG FOO=1 git status":           Asked,
		"FOO=1 sh -c 'git status'":               Asked, // no rule is about the shell
		"git status >$(LANG=C rm x)":             Asked,
		"if LANG=C git status; then ls; fi":      Asked,
		"for x in a; do LANG=C git status; done": Asked,
	} {
		if d := decide(text, rules); d.Outcome != want {
			t.Errorf("%s: %s (%s), want %s", text, d.Outcome, d.Reason, want)
		} else if d.Outcome == Allowed && d.Run == nil {
			t.Errorf("%s: it is not pinned", text)
		}
	}
}

// A translation can have a command in it.
func TestTranslationsAreSubstitutions(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("*"))
	for _, text := range []string{`ls $"hi"`, `ls a$"hi"`, `ls <<<$"hi"`, `ls "${X:-$"hi"}"`} {
		if d := decide(text, rules); d.Outcome != Asked {
			t.Errorf("%s: %s", text, d.Outcome)
		}
		if d := decide(text, rulesOf(SecurityFull, AskOnMiss, Rule{Action: Deny, Pattern: "rm"})); d.Outcome != Asked {
			t.Errorf("%s under a rule that denies: %s", text, d.Outcome)
		}
	}
	if d := decide(`ls '$"hi"' "$" \$"hi"`, rules); d.Outcome != Allowed {
		t.Errorf("%s", d.Reason)
	}
}
