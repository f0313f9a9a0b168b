package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ruleFix begins the text of a fix that is a rule to add.
const ruleFix = "add the rule "

// fixRule is the fix that adds r.
func fixRule(r Rule) string { return ruleFix + r.text("") }

// FixedBy is the rule that a fix of a Decision adds; false if it is another
// change.
func FixedBy(fix string) (Rule, bool) {
	r := Rule{Action: Allow}
	rest, ok := strings.CutPrefix(fix, ruleFix+"{allow: ")
	if ok {
		rest, ok = cutJSON(rest, &r.Pattern)
	}
	if args, more := strings.CutPrefix(rest, ", args: "); ok && more {
		rest, ok = cutJSON(args, &r.Args)
	}
	return r, ok && rest == "}"
}

// cutJSON reads the value that text begins with, and returns what is behind it.
func cutJSON(text string, to any) (rest string, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(to); err != nil {
		return "", false
	}
	return text[d.InputOffset():], true
}

// text is a rule that allows as a configuration has it. More is added as it is.
func (r *Rule) text(more string) string {
	text := "{allow: " + asJSON(r.Pattern)
	if r.Args != nil {
		list := make([]string, len(r.Args))
		for i, a := range r.Args {
			list[i] = asJSON(a)
		}
		text += ", args: [" + strings.Join(list, ", ") + "]"
	}
	if r.ArgPattern != "" {
		text += ", argPattern: " + asJSON(r.ArgPattern)
	}
	return text + more + "}"
}

// asJSON is a text as JSON5 and JSON have it.
func asJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always can be
	return strings.TrimSuffix(b.String(), "\n")
}

// Exactly is the rule whose pattern is the program of a pattern, and whose Args are
// the words after it: these are then all arguments that there may be, and have no
// wildcards.
func (r Rule) Exactly() Rule {
	words := splitPattern(r.Pattern)
	if len(words) == 0 {
		return r
	}
	r.Pattern, r.Args = QuotePattern(words[0]), append([]string{}, words[1:]...)
	return r
}

// narrowest is the rule that allows a segment and as little else as can be: the
// program with exactly these arguments. Where some of them cannot be told, it is
// those before them, behind which any may come.
func narrowest(program string, args []Word) Rule {
	r := Rule{Action: Allow, Pattern: QuotePattern(program)}
	if list := staticTexts(args); list != nil && allShown(list) {
		r.Args = list
		return r
	}
	words := []string{program}
	for _, w := range args {
		if !w.Static || strings.ContainsAny(w.Text, "*?") || !shown(w.Text) {
			break // a pattern cannot have it as itself
		}
		words = append(words, w.Text)
	}
	r.Pattern = QuotePattern(words...)
	return r
}

func allShown(list []string) bool {
	for _, s := range list {
		if !shown(s) {
			return false
		}
	}
	return true
}

// shown reports whether all of s can be seen by the person who is to add it.
func shown(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n' && r != '\t'
	})
}
