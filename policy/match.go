package policy

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// glob reports whether s matches the pattern: '*' is any run of characters but
// '/', or any run at all if crossing; '**' any run; '?' one character but '/'.
// Everything else stands for itself.
func glob(pattern, s string, crossing bool) bool {
	// The position to go back to at a mismatch: a star takes one byte more.
	back, from, across := -1, 0, false
	p, i := 0, 0
	// A '**' seen before a '*' may have to take more when that one cannot.
	wide, wideFrom := -1, 0
	for {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			across = crossing
			p++
			if p < len(pattern) && pattern[p] == '*' {
				across = true
				p++
			}
			back, from = p, i
			if across {
				wide, wideFrom = p, i
			}
			continue
		case i == len(s):
			return p == len(pattern)
		case p < len(pattern) && pattern[p] == '?' && (crossing || s[i] != '/'):
			_, n := utf8.DecodeRuneInString(s[i:])
			p, i = p+1, i+n
			continue
		case p < len(pattern) && pattern[p] == s[i]:
			p, i = p+1, i+1
			continue
		}
		switch {
		case back >= 0 && from < len(s) && (across || s[from] != '/'):
			from++
			p, i = back, from
		case wide >= 0 && wideFrom < len(s):
			wideFrom++
			p, i = wide, wideFrom
			back, from, across = wide, wideFrom, true
		default:
			return false
		}
	}
}

// splitPattern is the words of a pattern. Quotes and backslashes are as in a
// shell, so that a path may have spaces.
func splitPattern(pattern string) []string {
	var words []string
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, in = c, true
		case quote != '\'' && c == '\\' && i+1 < len(pattern):
			i++
			word.WriteByte(pattern[i])
			in = true
		case quote == 0 && (c == ' ' || c == '\t'):
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

// programOf is the first word of a pattern, and whether there are more. It does not
// split the rest: for most rules the first word already does not match.
func programOf(pattern string) (program string, more bool) {
	from := 0
	for from < len(pattern) && (pattern[from] == ' ' || pattern[from] == '\t') {
		from++
	}
	for i := from; i < len(pattern); i++ {
		switch pattern[i] {
		case ' ', '\t':
			return pattern[from:i], true
		case '\'', '"', '\\':
			words := splitPattern(pattern)
			if len(words) == 0 {
				return "", false
			}
			return words[0], len(words) > 1
		}
	}
	return pattern[from:], false
}

// differs is a quick test for most rules: it reports that the first word of a pattern
// does not match s, since a character before the first special one differs.
func differs(pattern, s string) bool {
	for i := range min(len(pattern), len(s)) {
		switch pattern[i] {
		case '*', '?', '\'', '"', '\\', '~', ' ', '\t':
			return false
		case s[i]:
		default:
			return true
		}
	}
	return false
}

// argsOf is the words of a pattern behind the first.
func argsOf(pattern string, more bool) []string {
	if !more {
		return nil
	}
	if words := splitPattern(pattern); len(words) > 1 {
		return words[1:]
	}
	return nil // blanks
}

// QuotePattern is the pattern for a program and its first arguments. Globs in them
// stay globs.
func QuotePattern(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsAny(w, " \t'\"\\") {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// A target is the program and arguments that a rule is compared with.
type target struct {
	name  string   // as written, if that is certain
	paths []string // where it was found, the file that this is a link to
	names []string // the base names of name and paths, as they are and normalized
	argv  []Word   // with the program
	home  string
}

// allows reports whether an allow rule matches t. A word that is not certain matches
// nothing.
func (r *Rule) allows(t target, sha256 string) bool {
	if r.Command != "" {
		return false
	}
	if len(t.paths) > 0 && differs(r.Pattern, t.paths[0]) {
		return false
	}
	program, more := programOf(r.Pattern)
	if !r.programAllowed(program, t) {
		return false
	}
	words := argsOf(r.Pattern, more)
	if r.SHA256 != "" && !strings.EqualFold(r.SHA256, sha256) {
		return false
	}
	args := t.argv[1:]
	if len(words) > len(args) {
		return false
	}
	for i, w := range words {
		if !args[i].Static || !glob(w, args[i].Text, true) {
			return false
		}
	}
	if r.Args == nil && r.ArgPattern == "" {
		return true
	}
	static := staticTexts(args)
	if static == nil {
		return false
	}
	return (r.Args == nil || slices.Equal(r.Args, static)) &&
		(r.ArgPattern == "" || matchRegexp(r.ArgPattern, joinedFor(r.ArgPattern, static), true))
}

// joinedFor is the arguments as one text for an expression: joined by spaces. If the
// expression has a NUL, each argument ends in a NUL instead, and two NULs stand for no
// arguments. Programs write such expressions, so that "a b" and "a", "b" differ.
func joinedFor(expr string, args []string) string {
	switch {
	case !strings.Contains(expr, "\x00"):
		return strings.Join(args, " ")
	case len(args) == 0:
		return "\x00\x00"
	}
	return strings.Join(args, "\x00") + "\x00"
}

func (r *Rule) programAllowed(pattern string, t target) bool {
	switch {
	case pattern == "*":
		return true
	case len(t.paths) == 0 || !strings.ContainsAny(pattern, "/~"):
		return false
	}
	return glob(expandHome(pattern, t.home), t.paths[0], false)
}

// narrow reports whether the rule names all arguments: its author knew what they do.
func (r *Rule) narrow() bool { return r.Args != nil || r.ArgPattern != "" }

// any reports whether the rule matches every program.
func (r *Rule) any() bool { return r.Pattern == "*" && !r.narrow() }

// A likeness says whether a deny or ask rule matches a command.
type likeness int

const (
	unlike  likeness = iota
	perhaps          // it depends on words that are not certain
	alike
)

// forbids compares a deny or ask rule with t.
func (r *Rule) forbids(t target) likeness {
	if r.Command != "" {
		return unlike
	}
	program, more := programOf(r.Pattern)
	if program == "" || !programNamed(program, t) {
		return unlike
	}
	args := t.argv[1:]
	found := argsNamed(argsOf(r.Pattern, more), args)
	if r.Args == nil && r.ArgPattern == "" {
		return found
	}
	static := staticTexts(args)
	switch {
	case static == nil:
		return min(found, perhaps)
	case r.Args != nil && !slices.Equal(r.Args, static):
		return unlike
	case r.ArgPattern != "" && !matchRegexp(r.ArgPattern, joinedFor(r.ArgPattern, static), false):
		return unlike
	}
	return found
}

func programNamed(pattern string, t target) bool {
	if strings.ContainsAny(pattern, "/~") {
		pattern = expandHome(pattern, t.home)
		return t.name != "" && glob(pattern, t.name, false) || slices.ContainsFunc(t.paths, func(p string) bool { return glob(pattern, p, false) })
	}
	lower := strings.ToLower(pattern)
	for _, n := range t.names {
		if glob(pattern, n, true) || glob(lower, n, true) {
			return true
		}
	}
	return false
}

// argsNamed compares the arguments with those of a deny or ask rule. The rule's flags
// may be anywhere, also in clusters. Its other words must be the first operands, in
// this order; words that may be values of options can be skipped.
func argsNamed(want []string, args []Word) likeness {
	found := alike
	var operands []string
	for _, w := range want {
		if len(w) > 1 && w[0] == '-' && !strings.ContainsAny(w, "*?") {
			found = min(found, hasFlag(w, args))
			continue
		}
		operands = append(operands, w)
	}
	return min(found, operandsNamed(operands, args))
}

// operandsNamed compares the words of a rule that are no flags. It goes backwards, so that
// each word is compared with each argument once.
func operandsNamed(want []string, args []Word) likeness {
	behind := slices.Repeat([]likeness{alike}, len(args)+1) // of the later words, with the arguments from an index on
	for _, w := range slices.Backward(want) {
		from := make([]likeness, len(args)+1) // the same with w
		value := unlike                       // the same if the argument may be the value of an option before it
		for i, a := range slices.Backward(args) {
			found := unlike
			switch {
			case !a.Static:
				found = min(perhaps, behind[i+1])
			case glob(w, a.Text, true):
				found = behind[i+1]
			}
			switch passed := max(found, from[i+1]); {
			case !a.MayBeOption():
				from[i], value = found, passed
			case strings.Contains(a.Text, "="):
				from[i], value = passed, passed
			default:
				value = max(found, value)
				from[i] = value
			}
		}
		behind = from
	}
	return behind[0]
}

// hasFlag looks for a flag of a rule: -rf is found if -r and -f are.
func hasFlag(flag string, args []Word) likeness {
	if strings.HasPrefix(flag, "--") {
		name, _, _ := strings.Cut(flag, "=")
		return anyWord(args, func(text string) bool {
			given, _, _ := strings.Cut(text, "=")
			return given == name || len(given) > 2 && strings.HasPrefix(given, "--") && strings.HasPrefix(name, given)
		})
	}
	found := alike
	for _, letter := range flag[1:] {
		found = min(found, anyWord(args, func(text string) bool {
			if len(text) < 2 || text[0] != '-' {
				return false
			}
			// A long option that begins with the letter may mean the same.
			return text[1] != '-' && strings.ContainsRune(text[1:], letter) ||
				strings.HasPrefix(text, "--"+strings.ToLower(string(letter)))
		}))
	}
	return found
}

// anyWord says whether is holds for one of the arguments.
func anyWord(args []Word, is func(string) bool) likeness {
	found := unlike
	for _, a := range args {
		switch {
		case a.Static && is(a.Text):
			return alike
		case !a.Static && a.MayBeOption():
			found = perhaps
		}
	}
	return found
}

// staticTexts is the text of words that are all certain; nil if one is not.
func staticTexts(words []Word) []string {
	list := make([]string, len(words))
	for i, w := range words {
		if !w.Static {
			return nil
		}
		list[i] = w.Text
	}
	return list
}

func expandHome(pattern, home string) string {
	if rest, ok := strings.CutPrefix(pattern, "~"); ok && home != "" && (rest == "" || rest[0] == '/') {
		return strings.TrimSuffix(home, "/") + rest
	}
	return pattern
}

// regexps are the compiled expressions of rules. Their number is bounded by that of
// the rules that people wrote.
var regexps sync.Map // string → *regexp.Regexp, nil if it is malformed

// matchRegexp reports whether s matches; without whole, a part of s is enough.
func matchRegexp(expr, s string, whole bool) bool {
	if whole {
		expr = `^(?:` + expr + `)$`
	}
	v, ok := regexps.Load(expr)
	if !ok {
		re, err := regexp.Compile(expr)
		if err != nil {
			re = nil
		}
		v, _ = regexps.LoadOrStore(expr, re)
	}
	re, _ := v.(*regexp.Regexp)
	return re != nil && re.MatchString(s)
}
