package runshell

import (
	"path"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// toolNames are the names of the tool in entries. All but the first come from Gemini CLI
// and Claude Code, whose configurations are still in use.
var toolNames = []string{Name, "ShellTool", "Shell", "Bash"}

// restrictions are the entries of coreTools and excludeTools for this tool.
type restrictions struct {
	core, exclude rules
}

// rules are the entries of one list.
type rules struct {
	all      bool // the tool itself is on the list
	specific bool // some entry names commands, though it may match none
	list     []rule
}

// A rule is the content of an entry's parentheses: words, in which '*' is any run of
// characters. A rule without '*' matches commands that begin with its words.
type rule struct {
	words []string // without '*'
	glob  []string // the pieces between '*' of the words joined by sep
	exact bool     // nothing may come after the words
}

// sep separates words when patterns are matched. No word contains it, so a space within a
// word does not count as a separator.
const sep = "\x00"

// parseRestrictions reads both lists. An invalid entry matches nothing; the error names
// all invalid entries. If the list of core tools does not have this tool, for example
// since its name is misspelt, it allows none of its commands; * stands for every tool.
func parseRestrictions(core, exclude []string) (restrictions, error) {
	c, badCore := parseRules(core)
	if len(core) > 0 && !c.all && !slices.Contains(core, "*") {
		c.specific = true
	}
	e, badExclude := parseRules(exclude)
	r := restrictions{c, e}
	if bad := append(badCore, badExclude...); len(bad) > 0 {
		return r, corral.Errorf(corral.ErrInvalid, "write run_shell_command, or run_shell_command(git status)",
			"coreTools or excludeTools: cannot understand %q", bad)
	}
	return r, nil
}

func parseRules(entries []string) (r rules, malformed []string) {
	for _, entry := range entries {
		text, ok := aboutUs(entry)
		if !ok {
			continue
		}
		if text == "" {
			r.all = true
			continue
		}
		r.specific = true
		inner, opened := strings.CutPrefix(text, "(")
		inner, closed := strings.CutSuffix(inner, ")")
		if !opened || !closed {
			malformed = append(malformed, entry)
			continue
		}
		if one, ok := parseRule(inner); ok {
			r.list = append(r.list, one)
		}
	}
	return r, malformed
}

// aboutUs reports whether an entry names this tool, and returns the text behind the name.
func aboutUs(entry string) (rest string, ok bool) {
	entry = strings.TrimSpace(entry)
	for _, name := range toolNames {
		rest, ok := strings.CutPrefix(entry, name)
		if ok && (rest == "" || !partOfName(rest[0])) {
			return rest, true
		}
	}
	return "", false
}

func partOfName(c byte) bool {
	return c == '_' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// parseRule reads the content of the parentheses. Empty parentheses are a rule that
// matches nothing.
func parseRule(text string) (rule, bool) {
	text = strings.TrimSpace(text)
	if program, ok := strings.CutSuffix(text, ":*"); ok {
		text = program + " *"
	}
	words := ruleWords(text)
	// "git *" is git with any arguments, or none, as "git" is.
	if n := len(words) - 1; n > 0 && words[n] == "*" && strings.Count(text, "*") == 1 {
		words = words[:n]
	}
	if len(words) == 0 {
		return rule{}, false
	}
	pattern := strings.Join(words, sep)
	if !strings.Contains(pattern, "*") {
		return rule{words: words}, true
	}
	return rule{glob: strings.Split(pattern, "*")}, true
}

// ruleWords are the words of a pattern, without the quotes that a shell would
// remove.
func ruleWords(text string) []string {
	parts, _ := parts(text)
	if len(parts) != 1 || parts[0].Text != text {
		return strings.Fields(text)
	}
	return texts(parts[0].Words)
}

// allows reports whether the list has a command.
func (r rules) allows(words []policy.Word) bool {
	return r.all || slices.ContainsFunc(r.list, func(rule rule) bool { return rule.matches(texts(words)) })
}

// forbids reports whether the list has a command. The path of the program does not
// matter, and there may be options before the words of a rule. maybe: it depends on the
// values of variables.
func (r rules) forbids(words []policy.Word) (sure, maybe bool) {
	if r.all {
		return true, false
	}
	program := words[0]
	program.Text = path.Base(program.Text)
	for _, rule := range r.list {
		if rule.matches(texts(words)) {
			return true, false
		}
		for _, rest := range behindOptions(words[1:]) {
			as := append([]policy.Word{program}, rest...)
			if rule.matches(texts(as)) {
				return true, false
			}
			maybe = maybe || rule.mayMatch(as)
		}
	}
	return false, maybe
}

// behindOptions are the arguments of a command, and the same without the first options:
// git -C . push is git push. The word behind an option may be its value.
func behindOptions(args []policy.Word) [][]policy.Word {
	all := [][]policy.Word{args}
	for i, a := range args {
		if !strings.HasPrefix(a.Text, "-") && (i == 0 || !strings.HasPrefix(args[i-1].Text, "-")) {
			break
		}
		all = append(all, args[i+1:])
	}
	return all
}

// mayMatch reports whether a command with unknown words could match the rule.
func (r rule) mayMatch(words []policy.Word) bool {
	for i, w := range words {
		switch {
		case i == len(r.words): // no unknown word so far; a '*' of the rule is not examined
			return false
		case !w.Static:
			return strings.HasPrefix(r.words[i], w.Prefix)
		case w.Text != r.words[i]:
			return false
		}
	}
	return false
}

func (r rule) matches(words []string) bool {
	if r.glob == nil {
		return len(words) >= len(r.words) && slices.Equal(words[:len(r.words)], r.words) && (!r.exact || len(words) == len(r.words))
	}
	return globbed(strings.Join(words, sep), r.glob)
}

// globbed reports whether text consists of the pieces, in order, with any text between
// them.
func globbed(text string, pieces []string) bool {
	last := len(pieces) - 1
	text, ok := strings.CutPrefix(text, pieces[0])
	if !ok || len(text) < len(pieces[last]) || !strings.HasSuffix(text, pieces[last]) {
		return false
	}
	text = strings.TrimSuffix(text, pieces[last])
	for _, piece := range pieces[1:last] {
		i := strings.Index(text, piece)
		if i < 0 {
			return false
		}
		text = text[i+len(piece):]
	}
	return true
}

func texts(words []policy.Word) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w.Text
	}
	return list
}
