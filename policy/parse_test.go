package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/programs"
)

// kindsOf are the kinds of the findings in a text, once each.
func kindsOf(text, shell string) string {
	_, found := Parts(text, shell)
	var kinds []string
	for _, f := range found {
		if !slices.Contains(kinds, string(f.Kind)) {
			kinds = append(kinds, string(f.Kind))
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

func TestFindings(t *testing.T) {
	for text, want := range map[string]string{
		"ls": "", "ls -la 'a;b'": "", "ls | wc": "", "ls \\\n -l": "", "ls *.go ~ $HOME \"$X\" ${X:-a} ${#X}": "", "ls # a; b": "", "ls;": "", "\nls\n": "", "ls {a,b}": "", `echo \$\(rm\)`: "", "echo '`rm`'": "",
		"a; b": "chaining", "a && b": "chaining", "a || b": "chaining", "a\nb": "chaining", "a | b; c": "chaining", "a &": "background", "a & b": "background chaining",
		"a >x": "redirection", "a >>x": "redirection", "a <x": "redirection", "a 2>&1": "redirection", "a &>x": "redirection", "a >|x": "redirection", "a <>x": "redirection", "a <<<x": "redirection", "a <<X\nb\nX": "redirection", "a |& b": "redirection", "exec 3<&0": "redirection", ">x": "redirection",
		"a $(b)": "substitution", "a `b`": "substitution", "a \"$(b)\"": "substitution", "a <(b)": "substitution", "a >(b)": "substitution", "a ${X:-$(b)}": "substitution", "a <<X\n$(b)\nX": "redirection substitution",
		"a \"${X:-'$(b)'}\"": "substitution", "a <<X\n${X:-'`b`'}\nX": "redirection substitution", "a \"${X:-'}'}\"": "expansion", "a \"${X:-$'b'}\"": "expansion", "a \"${X:-'b c'}\" ${X:-'$(b)'} \"${X%'.go'}\"": "",
		"a $((1+1))": "", "a $((X))": "expansion", "a ${X:=b}": "expansion", "a ${!X}": "expansion", "a ${X@P}": "expansion", "a ${X:1}": "expansion", "a ${X:Y}": "expansion", "a ${X[Y]}": "expansion", "a ${X[0]} ${X[@]}": "", "a @(b)": "expansion",
		"X=1": "assignment", "X=1 a": "assignment", "X=$(b) a": "assignment substitution", "X=(1 2)": "assignment", "a=b c": "assignment", "a c=b": "",
		"(a)": "compound", "{ a; }": "compound", "! a": "compound", "if a; then b; fi": "compound", "while a; do b; done": "compound", "for i in a; do b; done": "compound", "case a in b) c;; esac": "compound", "[[ a ]]": "compound", "((1))": "compound", "f() { a; }": "compound", "time a": "", "coproc a": "compound", "export X=1": "assignment", "select i in a; do b; done": "compound", "let 1+1": "compound", "declare -x X": "assignment compound",
		"a 'b": "syntax", "a \"b": "syntax", "a |": "syntax", "a &&": "syntax", "(a": "syntax", "a )": "syntax", "if a": "syntax", "a <<X\nb": "syntax", "a $(b": "syntax", "a `b": "syntax", "a ${b": "syntax", "a \\": "",
		"a\rb": "syntax", "a\x00b": "syntax", "a\x1b[0m": "syntax", "a\x7f": "syntax", "a\u00a0b": "syntax", "a\u2028b": "syntax", "a\u202eb": "syntax", "a\u200bb": "syntax", "a\ufeffb": "syntax", "a \xff": "syntax", "a\u0085b": "syntax",
		"été 中文 🙂": "", "a é": "",
	} {
		if got := kindsOf(text, "bash"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Every finding says where it is and has its text.
func TestFindingPlaces(t *testing.T) {
	text := "é a; b >x && c $(d)"
	_, found := Parts(text, "bash")
	for _, f := range found {
		if f.Text == "" || !strings.HasPrefix(text[f.Offset:], f.Text) {
			t.Errorf("%+v", f)
		}
	}
	segments, _ := Parts(text+" | sh -c 'ls; pwd'", "bash")
	for _, s := range segments {
		if s.Depth == 0 && !strings.HasPrefix((text + " | sh -c 'ls; pwd'")[s.Offset:], s.Text) || s.Depth == 1 && s.Offset != -1 {
			t.Errorf("%+v", s)
		}
	}
	if len(segments) != 7 {
		t.Errorf("%d segments", len(segments))
	}
}

// With chaining: each, lists run if each of their commands is allowed; all else
// is refused as before.
func TestChaining(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls"), allow("/bin/echo"))
	rules.Chaining.Value = true
	for text, want := range map[string]bool{
		"ls; echo a": true, "ls && echo a || ls": true, "ls\nls\n": true, "! ls": true, "cd x && ls": true, ": && ls": true, "true; false; ls": true, "ls | echo; ls": true, "sh -c 'ls; echo'": true, "sh -c 'ls; rm x'": false, "ls &": true, "ls & ls": true,
		"ls; rm x": false, "rm x; ls": false, "ls || rm x": false, "ls && $X": false, "cd $(rm x)": false, "ls; echo >x": false, "(ls; ls)": false, "if ls; then ls; fi": false, "ls; X=1": false, "cd x && ./ls": false, "nice cd x": false, "exit 1": false, "ls; exit 1": false, "eval ls": false, "command rm x; ls": false,
	} {
		d := Decide(requestOf(text), rules, someFiles)
		if (d.Outcome == Allowed) != want {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		}
		strict := rules
		strict.Chaining.Value = false
		if d := Decide(requestOf(text), strict, someFiles); d.Outcome == Allowed && !strings.HasPrefix(text, "sh -c") {
			t.Errorf("%q is allowed without the option", text)
		}
	}
}

// With redirections: harmless, here-documents pass, and redirections that neither read
// nor write a file.
func TestRedirections(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls"), allow("/bin/cat"))
	rules.Redirections.Value = true
	for text, want := range map[string]bool{
		"ls >/dev/null": true, "ls 2>/dev/null": true, "ls &>/dev/null": true, "ls >/dev/null 2>&1": true, "ls 2>&1": true, "ls >&2": true, "ls 1>&2": true, "cat </dev/null": true, "ls >>/dev/null": true, "ls |& cat": true, "ls 2>&-": true, "ls > '/dev/null'": true,
		"cat <<'X'\n$(rm x)\nX": true, "cat <<X\na $HOME\nX": true, "cat <<-X\n\ta\n\tX": true, "cat <<<a": true, "cat <<<\"$X\"": true,
		"ls >x": false, "ls 2>x": false, "ls &>x": false, "cat <x": false, "ls >/dev/null2": false, "ls >/dev/../x": false, "ls >/dev/tcp/h/1": false, "ls >$X": false, "ls >&$X": false, "ls >&x": false, "ls 3>/dev/null": false, "ls >&3": false, "ls {x}>/dev/null": false, "cat <<X\n$(rm x)\nX": false, "cat <<X\n`rm x`\nX": false, "cat <<<$(rm x)": false, "ls >|x": false, "ls <>x": false, "ls >/dev/stdout": false, "ls >~/x": false,
		"cat <<X\na\\\nX\nrm x\nX": false, "exec >/dev/null": false,
	} {
		d := Decide(requestOf(text), rules, someFiles)
		if (d.Outcome == Allowed) != want {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		}
		strict := rules
		strict.Redirections.Value = false
		if d := Decide(requestOf(text), strict, someFiles); d.Outcome == Allowed {
			t.Errorf("%q is allowed without the option", text)
		}
	}
}

// The program sh is bash on some machines and dash on others. Text that they read in
// two ways is refused, and the findings are those of both readings.
func TestDialects(t *testing.T) {
	two := func(text, shell string) bool {
		_, found := Parts(text, shell)
		return slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.Reason, "in two ways") || f.Kind == Syntax })
	}
	for _, text := range []string{"ls <(rm x)", "ls &>x", "ls |& rm", "[[ a ]]; rm x", "function f { rm x; }", "ls {a,b}", "ls $'a\\x'", "select i in a; do rm x; done", "f() ( rm x ); declare a; let a", "echo ${X/a/b}", "a=(1 2)", "ls <<<a", "coproc rm x", "time rm x", "ls &>/dev/null"} {
		_, bash := Parts(text, "bash")
		_, sh := Parts(text, "sh")
		if len(sh) < len(bash) {
			t.Errorf("%q: sh finds %d, bash %d", text, len(sh), len(bash))
		}
	}
	for text, want := range map[string]bool{
		"ls -la": false, "ls | wc": false, "ls 'a b' \"c\"": false, "ls; ls": false, "ls $HOME": false, "if a; then b; fi": false, "ls >x 2>&1": false, "cat <<X\na\nX": false, "f() { a; }; f": false, "ls *.go": false, "a && b": false,
		"ls <(a)": true, "ls &>x": true, "ls |& a": true, "a=(1 2)": true, "cat <<<a": true, "function f { a; }": true,
	} {
		if got := two(text, "sh"); got != want {
			t.Errorf("%q: in two ways: %t", text, got)
		}
		if two(text, "bash") {
			t.Errorf("%q is read in two ways by bash", text)
		}
	}
	// A text that is parsed only once has the same parts in every dialect.
	for _, c := range benchmarked {
		if plainText(c.text) && len(dialects("sh", c.text)) != 1 {
			t.Errorf("%q is parsed twice", c.text)
		}
	}
	for _, text := range []string{"time ls", "ls|time ls", "x;function f", "ls $X", "ls &>x", "a=b\nlet x", "{ ls;}", "echo `ls`"} {
		if plainText(text) {
			t.Errorf("%q is plain", text)
		}
	}
	for _, shell := range []string{"fish", "pwsh", "powershell.exe", "cmd.exe", "csh", "nu"} {
		d := Decide(Request{Command: "ls", Shell: []string{"/bin/" + shell, "-c"}, Dir: "/", Path: "/bin"}, rulesOf(SecurityAllowlist, AskOnMiss, allow("*")), someFiles)
		if d.Outcome != Asked || !strings.Contains(d.Reason, "is in the language of "+shell) {
			t.Errorf("%s: %s: %s", shell, d.Outcome, d.Reason)
		}
	}
}

// Hostile texts are neither slow nor deep.
func TestLimits(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("*"), deny("rm"))
	rules.Chaining.Value, rules.Redirections.Value = true, true
	const size = 128 << 10
	for _, c := range []struct{ head, unit, tail string }{
		{"", "(", ""}, {"", "$(", ""}, {"", "{", ""}, {"", "{ ", ""}, {"", "`", ""}, {"", "\\`", ""}, {"ls ", "`ls ", ""}, {"ls ", "`\\`", ""}, {"ls \"", "`", ""}, {"", "[[ ", ""}, {"", "((", ""}, {"", "$((", ""}, {"echo ", "${a:-", ""}, {"", "if ", ""}, {"", "while ", ""}, {"", "case a in a) ", ""},
		{"", "! ", "ls"}, {"", "a|", "a"}, {"", "a;", ""}, {"", "a&&", "a"}, {"", "a\n", ""}, {"", "a&", ""}, {"ls ", ">x ", ""}, {"ls ", "<<X ", ""}, {"", "X=1 ", "ls"}, {"ls ", "a{b,c}", ""}, {"ls ", "*", ""}, {"ls ", "\"$(", ""},
		{"", "env ", "ls"}, {"", "nice ", "ls"}, {"", "sh -c ", "ls"}, {"", "timeout 5 ", "rm x"}, {"", "sudo ", "rm"}, {"", "xargs ", "rm"}, {"", "env -S '", ""}, {"", "busybox ", "rm"}, {"", "eval ", "rm"}, {"", "find . -exec ", "rm"}, {"find ", "-exec ls ; ", ""}, {"git ", "-c a=b ", "push"}, {"", "trap ", ""}, {"ls ", "'", "'"}, {"ls ", "\"", "\""}, {"ls #", "x", ""}, {"ls ", "$'\\''", ""}, {"", "f() { ", ""}, {"", "\\\n", "ls"}, {"ls ", "-a", ""}, {"ls ", "-a ", ""}, {"tar ", "--to-command=x ", ""},
		{"f() { ls; }; ", "f; ", ""}, {"echo ", "$((1+", ""}, {"ls ", "é", ""}, {"", "time ", "ls"}, {"", "coproc ", "ls"}, {"", "then ", ""}, {"ls ", "@(", ""}, {"a", "[", ""}, {"a", "[", "]=1"}, {"ls ", "<(", ""}, {"ls ", "${!", ""},
	} {
		for _, n := range []int{size, size + len(c.unit)} { // as long as it can be, and longer
			text := c.head + strings.Repeat(c.unit, (n-len(c.head)-len(c.tail))/len(c.unit)) + c.tail
			for _, shell := range []string{"sh", "bash"} {
				req := requestOf(text)
				req.Shell = []string{"/bin/" + shell, "-c"}
				start := time.Now()
				d := Decide(req, rules, someFiles)
				if took := time.Since(start); took > time.Minute { // usually less than one; the machine may be busy
					t.Errorf("%q… by %s takes %v", text[:20], shell, took)
				}
				if n > size && len(text) > size && d.Outcome == Allowed {
					t.Errorf("%q… is longer than can be run, and allowed", text[:20])
				}
				if len(d.Segments) > 20*maxCalls || len(d.Reason) > 2000 {
					t.Errorf("%q…: %d segments, a reason of %d bytes", text[:20], len(d.Segments), len(d.Reason))
				}
			}
		}
	}
}

func TestManyCommands(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls"))
	rules.Chaining.Value = true
	if d := Decide(requestOf(strings.Repeat("ls;", maxCalls)), rules, someFiles); d.Outcome != Allowed {
		t.Errorf("%s: %s", d.Outcome, d.Reason)
	}
	if d := Decide(requestOf(strings.Repeat("ls;", maxCalls+1)), rules, someFiles); d.Outcome != Asked || !strings.Contains(d.Reason, "has more than 1000 commands") {
		t.Errorf("%s: %s", d.Outcome, d.Reason)
	}
}

// Nested shells and nested wrappers are read to a depth each; a deeper command is not
// allowed.
func TestDepth(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls"))
	text := "ls"
	for depth := 0; depth <= maxDepth+2; depth++ {
		d := Decide(requestOf(text), rules, someFiles)
		if want := depth <= maxDepth; (d.Outcome == Allowed) != want {
			t.Errorf("%d shells: %s: %s", depth, d.Outcome, d.Reason)
		}
		text = "sh -c '" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	for layers := range programs.MaxLayers + 3 {
		d := Decide(requestOf(strings.Repeat("nice ", layers)+"ls"), rules, someFiles)
		if want := layers <= programs.MaxLayers; (d.Outcome == Allowed) != want {
			t.Errorf("%d wrappers: %s: %s", layers, d.Outcome, d.Reason)
		}
		denied := rulesOf(SecurityFull, AskOnMiss, deny("ls"))
		if d := Decide(requestOf(strings.Repeat("nice ", layers)+"ls"), denied, someFiles); d.Outcome == Allowed {
			t.Errorf("%d wrappers hide what is denied", layers)
		}
	}
}

// A text of many backticks, as Markdown has them, is not nested.
func TestBackticks(t *testing.T) {
	text := "cat <<'X'\n" + strings.Repeat("`code` and ```\n", 1000) + "X"
	if d := Decide(requestOf(text), rulesOf(SecurityFull, AskOnMiss, deny("rm")), someFiles); d.Outcome != Allowed {
		t.Errorf("%s: %s", d.Outcome, d.Reason)
	}
}

// A shell joins continued lines before it expands braces.
func TestContinuedBraces(t *testing.T) {
	for _, text := range []string{"sort -{n.\\\n.p} x | wc", "sort -{n\\\n..p} x", "sort -{n,\\\no} x", "sort -{n.\\\n\\\n.p} x"} {
		if d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss, allow("/usr/bin/sort"), allow("/usr/bin/wc")), someFiles); d.Outcome != Asked {
			t.Errorf("%q: %s", text, d.Outcome)
		}
	}
}

// A shell that reads words as variables, or comments as words, is not looked through.
func TestShellsOfOtherReadings(t *testing.T) {
	for _, text := range []string{`bash -kc 'ls LD_PRELOAD=x'`, `bash -o keyword -c 'ls LD_PRELOAD=x'`, `bash -i +O interactive_comments -c 'ls # ; rm x'`} {
		if d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls")), someFiles); d.Outcome != Asked {
			t.Errorf("%q: %s, runs %+v", text, d.Outcome, d.Run)
		}
	}
}
