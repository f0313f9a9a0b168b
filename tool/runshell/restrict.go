package runshell

import (
	"path"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// toolNames are what entries call the tool; the others are its names in Gemini CLI
// and Claude Code, whose configurations are still in use.
var toolNames = []string{Name, "ShellTool", "Shell", "Bash"}

// restrictions are coreTools and excludeTools, as far as they are about this
// tool.
type restrictions struct {
	core, exclude rules
}

// rules are the entries of one list.
type rules struct {
	all      bool // the tool itself is on the list
	specific bool // some entry is about commands, though it may match none
	list     []rule
}

// A rule is what stands in the parentheses of an entry: words, in which '*' is
// any run of characters. Without one it is the beginning of a command.
type rule struct {
	words []string // without '*'
	glob  []string // of the words joined by sep, between each '*'
	exact bool     // nothing may come after the words
}

// sep is between words where patterns are matched: no word has it, so that a
// space in a word does not end it.
const sep = "\x00"

// parseRestrictions reads both lists. An entry that cannot be understood matches
// nothing; the error names all of them. A list of core tools in which this one is
// not, as where its name is misspelt, has none of its commands; * is every tool.
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

// aboutUs reports whether an entry is about this tool, and what follows its
// name.
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

// parseRule reads what is in the parentheses. Nothing is a rule that matches
// nothing.
func parseRule(text string) (rule, bool) {
	text = strings.TrimSpace(text)
	if program, ok := strings.CutSuffix(text, ":*"); ok {
		text = program + " *"
	}
	words := ruleWords(text)
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

// allows reports whether a command is one of the list's.
func (r rules) allows(words []policy.Word) bool {
	return r.all || slices.ContainsFunc(r.list, func(rule rule) bool { return rule.matches(texts(words)) })
}

// forbids reports whether a command is one of the list's, by whatever path its
// program is called, and with options before the words that the rule names. With
// maybe, it may be one, depending on what its variables hold.
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

// behindOptions are the arguments of a command, and what they are without the
// first options: git -C . push is git push. What follows an option may be its
// value.
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

// mayMatch reports whether words that can only be told by running the command
// could make it one of the rule's.
func (r rule) mayMatch(words []policy.Word) bool {
	for i, w := range words {
		switch {
		case i == len(r.words): // also of a pattern, where it is not told
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
	text := strings.Join(words, sep)
	// A last word that is any may be none: "git *" is git, too.
	if n := len(r.glob); n == 2 && r.glob[1] == "" && text+sep == r.glob[0] {
		return true
	}
	return globbed(text, r.glob)
}

// globbed reports whether text is made of the pieces, in order, with anything
// between them.
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
