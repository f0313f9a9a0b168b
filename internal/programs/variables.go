package programs

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/corral-exec/corral/internal/lazy"
)

// A Setting is a variable that the text of a command sets.
type Setting struct {
	Name  string
	Value Word
	Expr  *syntax.CallExpr // the command that it is set for; nil: all that follow
}

// plainVariables are the variables for the look of output and the place of the caller,
// with their harmless values. These have no path in them: with the language "../x",
// programs read translations from there, and with the time zone "/x" that file.
var plainVariables = []struct {
	names, values func() *regexp.Regexp
}{
	// In some character sets a byte of a letter is a backslash or a quote: a shell
	// then reads another text than the one that was decided on.
	{plainExpr(`LANG|LC_[A-Z]+`), plainExpr(`|C|POSIX|en_(US|GB)|[A-Za-z_]{1,16}\.(UTF-8|utf-8|UTF8|utf8)(@[a-z]{1,16})?`)},
	{plainExpr(`LANGUAGE`), plainExpr(`[A-Za-z0-9_.@:-]{0,128}`)},
	{plainExpr(`TZ`), plainExpr(`[A-Za-z<][A-Za-z0-9_+,./:<>-]{0,63}|`)},
	{plainExpr(`TERM|COLORTERM`), plainExpr(`[A-Za-z0-9][A-Za-z0-9._+-]{0,63}|`)},
	{plainExpr(`NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|CI`), plainExpr(`[A-Za-z0-9_-]{0,32}`)},
	{plainExpr(`QWEN_CODE|ASIMI_CLI`), plainExpr(`1`)}, // the tool run_shell_command sets it in every call
	{plainExpr(`COLUMNS|LINES`), plainExpr(`[0-9]{1,6}|`)},
	{plainExpr(`SOURCE_DATE_EPOCH`), plainExpr(`[0-9]{1,20}|`)},
}

func plainExpr(expr string) func() *regexp.Regexp { return lazy.Regexp(`^(?:` + expr + `)$`) }

// PlainVariable says why a variable is not in plainVariables; empty if it is.
func PlainVariable(name, value string) string {
	for _, p := range plainVariables {
		if !p.names().MatchString(name) {
			continue
		}
		if !p.values().MatchString(value) || strings.Contains(value, "..") {
			return "its value is none of those that " + name + " is known to be harmless with"
		}
		return ""
	}
	return "it may make a program run another, or load code"
}

// isPlainVariable reports whether a name is in plainVariables.
func isPlainVariable(name string) bool {
	for _, p := range plainVariables {
		if p.names().MatchString(name) {
			return true
		}
	}
	return false
}
