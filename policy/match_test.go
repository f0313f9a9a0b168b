package policy

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s     string
		path, argument bool // whether it matches, where '*' stops at '/' and where not
	}{
		{"/usr/bin/git", "/usr/bin/git", true, true},
		{"/usr/bin/git", "/usr/bin/gitk", false, false},
		{"/usr/bin/gi?", "/usr/bin/git", true, true},
		{"/usr?bin/git", "/usr/bin/git", false, true},
		{"/usr/bin/*", "/usr/bin/git", true, true},
		{"/usr/bin/*", "/usr/bin/", true, true},
		{"/usr/*", "/usr/bin/git", false, true},
		{"/usr/**", "/usr/bin/git", true, true},
		{"/usr/**/git", "/usr/git", false, false},
		{"/opt/**/bin/*", "/opt/a/b/bin/x", true, true},
		{"/opt/**/bin/*", "/opt/a/bin/b/x", false, true},
		{"**/bin/*", "/a/bin/b/bin/x", true, true},
		{"/a*b*c", "/abxbc", true, true},
		{"/*/*/x", "/a/b/x", true, true},
		{"/*/x", "/a/b/x", false, true},
		{"***", "/a/b", true, true},
		{"", "", true, true},
		{"", "a", false, false},
		{"*", "", true, true},
		{"?", "", false, false},
		{"/opt/tool[1](stable)", "/opt/tool[1](stable)", true, true},
		{"/opt/tool[1]", "/opt/tool1", false, false},
		{"/usr/bin/*++", "/usr/bin/g++", true, true},
		{"/Bin/ls", "/bin/ls", false, false},
		{"/é*", "/été", true, true},
		{"/é?é", "/été", true, true},
		{"/?t?", "/été", true, true},
		{"/??", "/é", false, false},
		{"/é*", "/école", true, true},
		{"/中?x", "/中文x", true, true},
		{"/中*", "/中文", true, true},
		{"/a\n*", "/a\nb", true, true},
		{strings.Repeat("*a", 40), strings.Repeat("a", 60) + "b", false, false},
		{strings.Repeat("**/", 30) + "x", strings.Repeat("a/", 60) + "y", false, false},
	} {
		if got := glob(c.pattern, c.s, false); got != c.path {
			t.Errorf("glob(%q, %q) of a path = %t", c.pattern, c.s, got)
		}
		if got := glob(c.pattern, c.s, true); got != c.argument {
			t.Errorf("glob(%q, %q) of an argument = %t", c.pattern, c.s, got)
		}
	}
}

// globModel is a glob as a regular expression.
func globModel(pattern string, crossing bool) *regexp.Regexp {
	one, run := `[^/]`, `[^/]*`
	if crossing {
		one, run = `.`, `.*`
	}
	var b strings.Builder
	b.WriteString(`^(?s:`)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*' && i+1 < len(pattern) && pattern[i+1] == '*':
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(run)
		case c == '?':
			b.WriteString(one)
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteString(`)$`)
	return regexp.MustCompile(b.String())
}

// A pattern for which differs is true does not match, and a rule's result is the same
// with that test and without.
func TestDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune(`ab/*?'"\~ `)), 0, 10, -1).Draw(t, "pattern")
		s := "/" + rapid.StringOfN(rapid.SampledFrom([]rune("ab/ ")), 0, 8, -1).Draw(t, "s")
		program, _ := programOf(pattern)
		r := &Rule{Action: Allow, Pattern: pattern}
		if differs(pattern, s) && r.programAllowed(program, target{paths: []string{s}, home: "/a"}) {
			t.Fatalf("%q matches %q, and differs at a glance", pattern, s)
		}
	})
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"/usr/bin/git status", "/usr/bin/ls", true},
		{"/usr/bin/git", "/usr/bin/git", false},
		{"/usr/bin/*", "/usr/bin/git", false},
		{"git", "/usr/bin/git", true},
	} {
		if got := differs(tc.pattern, tc.s); got != tc.want {
			t.Errorf("differs(%q, %q) = %v", tc.pattern, tc.s, got)
		}
	}
}

func TestGlobModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab/*?*")), 0, 10, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.SampledFrom([]rune("ab/")), 0, 12, -1).Draw(t, "s")
		for _, crossing := range []bool{false, true} {
			if got, want := glob(pattern, s, crossing), globModel(pattern, crossing).MatchString(s); got != want {
				t.Fatalf("glob(%q, %q, %t) = %t", pattern, s, crossing, got)
			}
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("/usr/*/git", "/usr/bin/git")
	f.Add("/opt/**/b?n/*", "/opt/a/b/bin/x")
	f.Add("**a*b**c?", "xaybzc/cc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 64 || len(s) > 256 {
			return
		}
		ascii := func(r rune) bool { return r >= 0x80 }
		if strings.ContainsFunc(pattern, ascii) || strings.ContainsFunc(s, ascii) {
			glob(pattern, s, false) // by bytes, which the model is not
			return
		}
		for _, crossing := range []bool{false, true} {
			if got, want := glob(pattern, s, crossing), globModel(pattern, crossing).MatchString(s); got != want {
				t.Errorf("glob(%q, %q, %t) = %t", pattern, s, crossing, got)
			}
		}
	})
}

func TestSplitPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                      "",
		"   ":                   "",
		"git":                   "git",
		" git  push\t-f ":       "git|push|-f",
		"'/opt/my tool' x":      "/opt/my tool|x",
		`/opt/my\ tool x`:       "/opt/my tool|x",
		`"/opt/my tool" "a\"b"`: `/opt/my tool|a"b`,
		`a''b "" '' c`:          "ab|||c",
		`'it'\''s'`:             "it's",
		`'a\b'`:                 `a\b`,
		`a\`:                    `a\`,
		`'open`:                 "open",
		"/usr/bin/* --*=?":      "/usr/bin/*|--*=?",
		"中文 'é è'":              "中文|é è",
	} {
		got := splitPattern(pattern)
		if strings.Join(got, "|") != want {
			t.Errorf("splitPattern(%q) = %q", pattern, got)
		}
		program, more := programOf(pattern)
		if first := append(got, "")[0]; program != first || more && len(got) < 2 && strings.TrimSpace(pattern) == pattern || !more && len(got) > 1 {
			t.Errorf("programOf(%q) = %q, %t", pattern, program, more)
		}
	}
}

func TestQuotePattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("a/ '\"\\\t*é")), 0, 6, -1), 1, 4).Draw(t, "words")
		got := splitPattern(QuotePattern(words...))
		if len(got) != len(words) {
			t.Fatalf("%q becomes %q", words, got)
		}
		for i := range words {
			if got[i] != words[i] {
				t.Fatalf("%q becomes %q", words, got)
			}
		}
	})
}

// Which commands a rule matches: "+" matches, "-" does not, "?" depends on words that
// are not known.
func TestRuleMatches(t *testing.T) {
	for _, c := range []struct {
		rule  Rule
		match string // of the commands, which are separated by new lines
	}{
		// An allow rule matches the path, as it was found on PATH.
		{allow("/usr/bin/git"), `
			+git
			+git status
			+/usr/bin/git
			-gitk
			-./git
			-/bin/git`},
		{allow("git"), `
			-git
			-/usr/bin/git`},
		{allow("GIT"), "-git"},
		{allow("/usr/bin/*"), "+git log\n-git x\n-ls\n-tool"},
		{allow("/**/bin/*"), "+git\n+rg\n+tool\n-ls"},
		{allow("/*bin/*"), "+ls\n-git"},
		{allow("~/bin/*"), "+tool\n+~/bin/tool\n-git"},
		{allow("~other/bin/*"), "-tool"},
		{allow("/opt/brew/bin/rg"), "+rg x"},
		{allow("/opt/brew/cellar/rg/14/rg"), "-rg x\n+/opt/brew/cellar/rg/14/rg x"}, // the path as found
		{allow("*"), "+ls\n+git push\n-unknown"},
		{allow("'/srv/my tool'"), "+'/srv/my tool' x\n+./my\\ tool"},
		{allow(`/srv/my\ tool`), "+'/srv/my tool'"},
		{allow(""), "-ls"},
		{allow("   "), "-ls"},

		// Its words are the first arguments.
		{allow("/usr/bin/git status"), `
			+git status
			+git status -s
			-git statusx
			-git -C x status
			-git
			-git push status
			-git $X
			-git "$X"
			+git 'status'`},
		{allow("/usr/bin/git log --*"), "+git log --oneline\n-git log\n-git log -5\n-git log $X"},
		{allow("/usr/bin/npm run *"), "-npm run build"}, // npm runs another program: only exact arguments allow it
		{allow("/usr/bin/make -? t*"), "+make -k test\n-make -k\n-make test"},
		{allow("/bin/ls *"), "+ls x\n-ls $X\n-ls *.go\n-ls"},
		{allow("/bin/ls 'a b'"), "+ls 'a b'\n-ls a b"},
		{Rule{Action: Allow, Pattern: "/bin/ls", Args: []string{"-l", "a"}}, "+ls -l a\n-ls -l\n-ls -l a b\n-ls -l $A\n-ls a -l"},
		{Rule{Action: Allow, Pattern: "/bin/ls", Args: []string{}}, "+ls\n-ls a"},
		{Rule{Action: Allow, Pattern: "/bin/ls", ArgPattern: "-l( [a-z]+)*"}, "+ls -l\n+ls -l a b\n-ls -la\n-ls x -l a\n-ls -l $A"},
		{Rule{Action: Allow, Pattern: "/bin/ls", ArgPattern: "("}, "-ls\n-ls ("},
		{Rule{Action: Allow, Pattern: "/bin/ls", SHA256: "00"}, "-ls"},
		{Rule{Action: Allow, Pattern: "/usr/bin/npm", Args: []string{"run", "build"}}, "+npm run build\n-npm run other"},
		{Rule{Action: Allow, Command: "git push"}, "+git push\n-git  push\n-git push x"},
		{Rule{Action: Allow, Command: CommandDigest("git push")}, "+git push\n-git push x"},
		{Rule{Action: Allow, Command: "ls; rm x > y"}, "+ls; rm x > y\n-ls; rm x"},

		// A deny rule also matches names, as written and of the file a link leads to.
		{deny("rm"), `
			+rm
			+rm x
			+/bin/rm
			+./rm
			+/elsewhere/rm
			+RM x
			+rm.exe
			-rmdir
			-ls rm
			-echo rm`},
		{deny("/bin/rm"), "+rm x\n+/bin/rm\n-/usr/bin/rm"},
		{deny("~/bin/*"), "+tool\n-git"},
		{deny("python3"), "+python3 x.py\n-python3.11 x.py\n-python x.py"},
		{deny("python3.11"), "+python3 x.py\n+python3.11"}, // the file that it is a link to
		{deny("python*"), "+python3 x.py\n+python2 x.py"},
		{deny("*"), "+ls\n+unknown"},
		{deny("/**"), "+ls\n-unknown"},

		// Its words are found behind options, in clusters and in any order.
		{deny("git push"), `
			+git push
			+git push origin main
			+git -C . push
			+git --no-pager push
			+git -c a=b push
			+git --git-dir=. push
			?git $X
			+git -C "$X" push
			-git status
			-git add push
			-git pushx
			-git commit -m push`},
		{deny("git push --force"), "+git push --force\n+git push origin --force\n+git push --forc\n-git push\n-git push -n\n?git push $X"},
		{deny("git push -f"), "+git push -f\n+git push -nf\n+git push --force\n-git push"},
		{deny("rm -rf"), `
			+rm -rf x
			+rm -fr x
			+rm -r -f x
			+rm -f x -r
			+rm --recursive --force x
			+rm -rvf x
			-rm -r x
			-rm x
			?rm $X
			?rm -r $X`},
		{deny("rm -rf /"), "+rm -rf /\n+rm -f -r /\n-rm -rf x\n-rm /\n?rm -rf $X"},
		{deny("npm publish"), "+npm publish\n+npm --tag x publish\n-npm test"},
		{Rule{Action: Deny, Pattern: "git", ArgPattern: "main"}, "+git push origin main\n-git push\n?git push $X"},
		{Rule{Action: Deny, Pattern: "git", Args: []string{"push"}}, "+git push\n-git push x\n?git $X"},
		{Rule{Action: Deny, Command: "git status"}, "+git status\n-git status -s"},

		// They are found wherever the program runs.
		{deny("rm"), `
			+ls; rm x
			+ls | xargs rm
			+find . -exec rm {} +
			+nice rm x
			+env A=b rm x
			+sudo rm x
			+sh -c 'rm x'
			+bash -c "ls && rm x"
			+echo $(rm x)
			+cat <(rm x)
			+if ls; then rm x; fi
			+f() { rm x; }; f
			+timeout 5 nice rm x
			+(rm x)
			+! rm x
			+rm x &
			+cat <<EOF
$(rm x)
EOF
			?$X x
			?eval "$X"
			?sh -c "$X"
			?ls | sh
			?"$X"rm`},
	} {
		for _, line := range commandLines(c.match) {
			mark, text := line[:1], line[1:]
			rules := rulesOf(SecurityAllowlist, AskOnMiss, c.rule)
			if c.rule.Action != Allow {
				rules.Security.Value = SecurityFull
			}
			rules.Chaining.Value = true
			d := Decide(requestOf(text), rules, someFiles)
			got := map[Outcome]string{Allowed: "+", Asked: "-"}[d.Outcome]
			if c.rule.Action != Allow {
				got = map[Outcome]string{Allowed: "-", Asked: "?", Denied: "+"}[d.Outcome]
			}
			if got != mark {
				t.Errorf("%s %q%s of %q: %s, want %s: %s", c.rule.Action, c.rule.Pattern, c.rule.Command, text, got, mark, d.Reason)
			}
			if d.Outcome == Denied && (d.Rule == nil || d.Rule.Pattern != c.rule.Pattern) {
				t.Errorf("%q is denied by the rule %v", text, d.Rule)
			}
		}
	}
}

// commandLines is a list of marked commands. A line without a mark continues the one
// before it.
func commandLines(list string) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.Trim(list, "\n"), "\n") {
		if trimmed := strings.TrimLeft(line, "\t"); strings.ContainsAny(trimmed[:1], "+-?") && trimmed != "" {
			lines = append(lines, trimmed)
		} else {
			lines[len(lines)-1] += "\n" + line
		}
	}
	return lines
}
