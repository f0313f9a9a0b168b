package exectest

import (
	"strings"

	"github.com/corral-exec/corral"
)

var argsCases = []Case{
	{Name: "args/exact", Doc: "Arguments arrive as they are: empty ones, spaces, newlines, quotes, globs, leading dashes, bytes that are not UTF-8.", Func: argsExact},
	{Name: "args/large", Doc: "A single argument of 100 KB, and a thousand arguments, arrive.", Func: argsLarge},
	{Name: "args/zeroth", Doc: "A program found on PATH sees the name it was called by.", Func: argsZeroth},
	{Name: "args/shell-text", Doc: "Shell text reaches the shell as it is: quotes, newlines, here-documents, comments, Unicode, 100 KB.", Func: argsShellText},
}

func argsExact(t *T) {
	args := []string{
		"", "", " ", "a b", "new\nline", "\ttab", `"double"`, "'single'", "`x`", "$HOME", "$(echo no)", `\`, `\n`,
		"*", "?", "~", "-c", "--", "a=b", "#", ";", "&", "|", ">", "日本語", "\xff\xfe", "\x01\x1b", "%s", "",
	}
	equal(t, "the argument list", t.ok(t.prog(append([]string{"argv"}, args...)...)), strings.Join(args, "\x00")+"\x00")
}

func argsLarge(t *T) {
	large := strings.Repeat("0123456789", 10_000)
	equal(t, "the argument", t.ok(t.prog("argv", large)), large+"\x00")
	many := make([]string, 1000)
	for i := range many {
		many[i] = strings.Repeat("m", i)
	}
	equal(t, "the argument list", t.ok(t.prog(append([]string{"argv"}, many...)...)), strings.Join(many, "\x00")+"\x00")
}

func argsZeroth(t *T) {
	equal(t, "$0", t.ok(corral.Command{Args: []string{"sh", "-c", `tr '\0' '\n' </proc/$$/cmdline | head -n 1`}}), "sh\n")
}

func argsShellText(t *T) {
	for _, test := range []struct{ text, want string }{
		{"echo \"a  b\" 'c  \"d\"' \\$HOME", "a  b c  \"d\" $HOME\n"},
		{"echo one\necho two # comment\n\n", "one\ntwo\n"},
		{"  \n\techo indented", "indented\n"},
		{"cat <<'END'\n$HOME `x` \\\n'END\nEND\n", "$HOME `x` \\\n'END\n"},
		{"printf '%s\\n' '日本語 😀'", "日本語 😀\n"},
		{"printf %s '\xff\xfe' | od -An -tx1 | tr -d ' '", "fffe\n"},
		{"x='" + strings.Repeat("y", 100_000) + "'; echo ${#x}", "100000\n"},
		{"set -- a b; echo $# $1", "2 a\n"},
		{"(exit 3); echo $?; false || echo or && echo and", "3\nor\nand\n"},
		{"echo $#", "0\n"},
		{"cat </dev/null; echo -n; echo end;", "end\n"},
	} {
		equal(t, clip(test.text), t.ok(corral.Command{Shell: test.text}), test.want)
	}
}
