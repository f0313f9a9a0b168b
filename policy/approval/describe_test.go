package approval

import (
	"strings"
	"testing"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain text é 日本 🙂":        "plain text é 日本 🙂",
		"a\tb\nc\r\x00\x7f":        `a\u{9}b\u{a}c\u{d}\u{0}\u{7f}`,
		"\x1b[2Jx\u009b":           `\u{1b}[2Jx\u{9b}`,
		"\u202egnp\u2066":          `\u{202e}gnp\u{2066}`,
		"a\u200bb\ufeff\u00ad":     `a\u{200b}b\u{feff}\u{ad}`,
		"a\u00a0b\u3000c\u2028":    `a\u{a0}b\u{3000}c\u{2028}`,
		"\u3164\u115f\uffa0\u034f": `\u{3164}\u{115f}\u{ffa0}\u{34f}`,
		"x\ufe0f\U000e0041\u2800":  `x\u{fe0f}\u{e0041}\u{2800}`,
		"\xff\xc3(":                `\x{ff}\x{c3}(`,
		"\ufffd":                   "\ufffd",
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\u202eb\x1b\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Visible(text) {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q has %q in it", text, r)
			}
		}
	})
}

func TestAbout(t *testing.T) {
	rec := Record{
		Slug: "calm-otter-1", Agent: "main", Host: corral.HostNode, Node: "mac", Command: "git push\nCWD: \x1b[1m/etc", Cwd: "/w", Description: "[background] push \x1b[1m it", Env: []string{"A", "B"}, PathPrepend: []string{"/w/bin", "\x1b"},
		Decision: policy.Decision{Reason: "no rule allows it", Variables: []policy.Variable{{Name: "A", SHA256: strings.Repeat("cd", 32), Reason: "it may load code"}}, Segments: []policy.Segment{
			{Text: "git push", Argv: []string{"git", "push"}, Path: "/bin/git", RealPath: "/usr/bin/git", Wrappers: []string{"nice"}, Reason: "no rule"},
			{Text: "sh x", Argv: []string{"sh", "x"}, Path: "/bin/sh", RealPath: "/bin/sh", Script: "/w/x", By: "rule"},
			{Text: "$X", Argv: nil},
			{Text: "npm run dev", Refused: "coreTools do not have it"},
		}},
		AllowedDecisions: Verdicts,
		Previews: []Preview{
			{Scope: ScopeExact, Entries: []policy.Rule{{Pattern: "/bin/git", Args: []string{"push", "a b"}}, {Pattern: "/bin/sh", Args: []string{}, SHA256: strings.Repeat("ab", 32), Env: []string{"X", "Y=1", "Z=sha256:" + strings.Repeat("cd", 32)}}}},
			{Scope: ScopeSubcommand, Entries: []policy.Rule{{Pattern: "/bin/git push", Action: policy.Allow}}},
			{Scope: ScopeProgram, Unavailable: "it runs code"},
		},
	}
	got := strings.Join(append(rec.About(), rec.AboutAlways()...), "\n")
	const want = `Command:
  git push
  CWD: \u{1b}[1m/etc
For:       [background] push \u{1b}[1m it (says its caller)
Host:      node:mac
Directory: /w
Variables: A (sha256 cdcdcdcdcdcd…; it may load code)
           B
PATH:      first /w/bin, \u{1b}
Why:       no rule allows it
Programs:
  git: /bin/git, which is /usr/bin/git, by nice (no rule)
  sh: /bin/sh; runs the script /w/x (allowed: rule)
  $X: not found, or only known when it runs
Always would remember, by scope:
  exact       /bin/git, with exactly the arguments: push 'a b'
              /bin/sh, without arguments, also with X, Y=1, Z as it is now (sha256 cdcdcdcdcdcd…), and the script as it is now (sha256 abababababab…)
  subcommand  /bin/git push
  program     nothing: it runs code`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	rec.AllowedDecisions, rec.AlwaysUnavailable = []Verdict{AllowOnce, Deny}, "allow-always is unavailable because of \x1b"
	if got := strings.Join(rec.AboutAlways(), "\n"); got != `Always:    allow-always is unavailable because of \u{1b}` {
		t.Error(got)
	}
	rec.Command = strings.Repeat("é", mostShown)
	if got := strings.Join(rec.About(), "\n"); len(got) > mostShown+1000 || !strings.Contains(got, "bytes are left out here") {
		t.Errorf("%d bytes", len(got))
	}
	for text, r := range map[string]policy.Rule{
		"exactly this command: a | b":                     {Command: "a | b"},
		"exactly one command, which is kept as sha256:00": {Command: "sha256:00"},
		"/bin/x, with arguments like: ^a$":                {Pattern: "/bin/x", ArgPattern: "^a$"},
		"rm -rf":                                          {Pattern: "rm -rf", Action: policy.Deny},
		"/bin/x, with any arguments":                      {Pattern: "/bin/x", Action: policy.Allow},
	} {
		if got := RuleText(r); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

// A long command of bytes that begin no character can be shown.
func TestAboutBytes(t *testing.T) {
	for _, text := range []string{strings.Repeat("\x80", 2*mostShown), "a" + strings.Repeat("\xbf", mostShown), strings.Repeat("é", mostShown)} {
		if lines := (Record{Command: text}).About(); len(lines) < 4 {
			t.Errorf("%d lines", len(lines))
		}
	}
}

// What a node says of itself cannot change how a line looks.
func TestAboutNode(t *testing.T) {
	const hidden = "\u202e\u200b"
	rec := Record{
		Command: "tool", AllowedDecisions: Verdicts,
		Decision: policy.Decision{
			Variables: []policy.Variable{{Name: "A", SHA256: hidden, By: hidden}},
			Segments:  []policy.Segment{{Text: hidden, Argv: []string{hidden}, Path: "/bin/tool", Script: hidden, Wrappers: []string{hidden}, By: hidden}, {Reason: hidden}},
		},
		Env: []string{"A"}, Previews: []Preview{
			{Scope: ScopeExact, Entries: []policy.Rule{{Command: "sha256:" + hidden}, {Command: hidden}, {Pattern: hidden, Args: []string{hidden}, SHA256: hidden, Env: []string{hidden}}, {Pattern: hidden, ArgPattern: hidden}}},
			{Scope: ScopeProgram, Unavailable: hidden},
		},
	}
	for _, line := range append(rec.About(), rec.AboutAlways()...) {
		if line != Visible(line) {
			t.Errorf("%q", line)
		}
	}
}
