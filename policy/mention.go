package policy

import (
	"fmt"
	"path"
	"strings"
)

// mentions finds what may be about a rule that forbids a program although no
// segment is that program: code in another language, the options of programs
// that run others, variables. What they do is not known, but if the program's
// name is in the text it is likely enough to need somebody's eyes.
func (j *judge) mentions() {
	text := j.req.text()
	for i := range j.rules.List {
		r := &j.rules.List[i]
		words := splitPattern(r.Pattern)
		if r.Action == Allow || len(words) == 0 {
			continue
		}
		name := path.Base(words[0])
		words[0] = name
		if !allMentioned(text, words) {
			continue
		}
		why := fmt.Sprintf("it may run %s, of which there is the %s rule %q", name, r.Action, r.Pattern)
		for _, c := range j.calls {
			for _, seg := range c.segments {
				if c.unknown == "" && (seg.Inline != "" || seg.Refused != "" || isShell(seg.name()) && seg.scriptWhy != "") {
					c.unknown = why
				}
			}
		}
		for i := range j.found {
			if f := &j.found[i]; f.Kind == Assignment && !f.unknown && mentioned(f.Text, name) {
				f.unknown = true
				f.Reason += ", and " + why
			}
		}
	}
}

// allMentioned reports whether all the words are in the text that can be looked
// for there.
func allMentioned(text string, words []string) bool {
	for i, w := range words {
		glob := strings.ContainsAny(w, "*?")
		if glob && i == 0 || !glob && w[:min(1, len(w))] != "-" && !mentioned(text, w) {
			return false
		}
	}
	return true
}

// mentioned reports whether the name is a word of the text.
func mentioned(text, name string) bool {
	for at := 0; name != ""; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(name)
		if (from == 0 || !partOfName(text[from-1])) && (to == len(text) || !partOfName(text[to])) {
			return true
		}
		at = from + 1
	}
	return true
}

func partOfName(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}
