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

// cutJSON reads the JSON value at the beginning of text, and returns the rest.
func cutJSON(text string, to any) (rest string, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(to); err != nil {
		return "", false
	}
	return text[d.InputOffset():], true
}

// text is an allow rule as it is written in a configuration, with more put before the
// closing brace.
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

// asJSON is s as a string of JSON and JSON5.
func asJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // cannot fail for a string
	return strings.TrimSuffix(b.String(), "\n")
}

// Exactly moves the words behind the program from Pattern to Args. The rule then
// allows exactly these arguments, and they have no wildcards.
func (r Rule) Exactly() Rule {
	words := splitPattern(r.Pattern)
	if len(words) == 0 {
		return r
	}
	r.Pattern, r.Args = QuotePattern(words[0]), append([]string{}, words[1:]...)
	return r
}

// narrowest is the narrowest rule that allows a segment: the program with exactly
// these arguments. If some are not known, it is the program with the arguments before
// them, and any may follow.
func narrowest(program string, args []Word) Rule {
	r := Rule{Action: Allow, Pattern: QuotePattern(program)}
	if list := staticTexts(args); list != nil && allShown(list) {
		r.Args = list
		return r
	}
	words := []string{program}
	for _, w := range args {
		if !w.Static || strings.ContainsAny(w.Text, "*?") || !shown(w.Text) {
			break // in a pattern it would not stand for itself
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

// shown reports whether all of s is visible to the person who adds the rule.
func shown(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n' && r != '\t'
	})
}
