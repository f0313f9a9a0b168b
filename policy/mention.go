package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/corral-exec/corral/internal/programs"
)

// mentions looks for programs of deny and ask rules in code of other languages, in
// options of programs that run others, and in variables. What such text does is not
// known. But if it contains the program's name, a person should look at it.
func (j *judge) mentions() {
	if len(j.other) == 0 {
		return
	}
	text := j.unquoted()
	for _, r := range j.other {
		program, more := programOf(r.Pattern)
		name := path.Base(program)
		if program == "" || strings.ContainsAny(name, "*?") || !mentioned(text, name) || !allMentioned(text, argsOf(r.Pattern, more)) {
			continue
		}
		why := fmt.Sprintf("it may run %s, for which there is the %s rule %q", name, r.Action, r.Pattern)
		for _, c := range j.calls {
			for _, seg := range c.segments {
				if c.unknown == "" && (seg.Inline != "" || seg.Refused != "" || programs.IsShell(seg.name()) && seg.scriptWhy != "") {
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

// unquoted is the text of the command, and behind it its words without their quotes.
func (j *judge) unquoted() string {
	var b strings.Builder
	b.WriteString(j.req.text())
	for _, c := range j.calls {
		if !strings.ContainsAny(c.text, `'"\`) {
			continue
		}
		for _, w := range c.words {
			if w.Static {
				b.WriteString("\n" + w.Text)
			}
		}
	}
	return b.String()
}

// allMentioned reports whether the arguments of a rule are in the text. Flags, which
// may be in clusters, and globs cannot be looked for and count as found.
func allMentioned(text string, words []string) bool {
	for _, w := range words {
		if !strings.ContainsAny(w, "*?") && !strings.HasPrefix(w, "-") && !mentioned(text, w) {
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
		if (from == 0 || !partOfName(text[from-1]) || behindFlags(text[:from])) && (to == len(text) || !partOfName(text[to])) {
			return true
		}
		at = from + 1
	}
	return true
}

// behindFlags reports whether text ends in a dash and a few letters. The text after
// them may be the value of the last flag, as in -Irm.
func behindFlags(text string) bool {
	const most = 3
	rest := strings.TrimRightFunc(text, func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' })
	n := len(text) - len(rest)
	before, ok := strings.CutSuffix(rest, "-")
	return ok && n > 0 && n <= most && (before == "" || !partOfName(before[len(before)-1]))
}

func partOfName(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}
