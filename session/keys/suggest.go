package keys

import (
	"slices"
	"strings"
	"unicode"

	"github.com/corral-exec/corral/internal/lazy"
)

var (
	functionKey = lazy.Regexp(`(?i)^F[0-9]+$`)
	// spelledOut matches modifiers as other programs write them: Ctrl+C, alt-x.
	spelledOut = lazy.Regexp(`(?i)^(?:(ctrl|control)|(alt|meta|option|opt)|(shift))[-+]`)
	arrow      = lazy.Regexp(`(?i)^(?:arrow[-_ ]?(up|down|left|right)|(up|down|left|right)[-_ ]?arrow)$`)
)

// otherNames maps other programs' names of keys to ours.
var otherNames = map[string]string{
	"cr": "Enter", "newline": "Enter", "linefeed": "C-j", "lf": "C-j",
	"spacebar": "Space", "bs": "BSpace", "ins": "Insert", "backtab": "BTab",
	"page up": "PageUp", "page_up": "PageUp", "page-up": "PageUp", "prior": "PageUp",
	"page down": "PageDown", "page_down": "PageDown", "page-down": "PageDown", "next": "PageDown",
}

// suggest returns the key that a wrong name probably means, or "". It may be wrong: it
// is advice.
func suggest(token string) string {
	const longest = 24 // longest token that may be a name; bounds the work
	if len(token) > longest {
		return ""
	}
	if n := len(token); n > 2 && slices.Contains([]string{"<>", "{}", "[]"}, token[:1]+token[n-1:]) {
		if inner := token[1 : n-1]; known(inner) {
			return canonical(inner)
		} else if meant := suggest(inner); meant != "" {
			return meant
		}
	}
	var prefix string
	m, name := splitModifiers(token)
	for _, one := range []struct {
		m      modifiers
		prefix string
	}{{ctrl, "C-"}, {alt, "M-"}, {shift, "S-"}} {
		if m&one.m != 0 {
			prefix += one.prefix
		}
	}
	for {
		match := spelledOut().FindStringSubmatch(name)
		if match == nil || len(match[0]) == len(name) {
			break
		}
		switch {
		case match[1] != "":
			prefix += "C-"
		case match[2] != "":
			prefix += "M-"
		default:
			prefix += "S-"
		}
		name = name[len(match[0]):]
	}
	if prefix != "" && known(name) {
		return prefix + canonical(name)
	}
	if meant := nearest(name); meant != "" {
		return prefix + meant
	}
	return ""
}

// known reports whether a name is that of a key, and printable.
func known(name string) bool {
	r, one := character(name)
	_, ok := named[strings.ToLower(name)]
	return one && unicode.IsPrint(r) || ok
}

// canonical spells a known name as the documentation does.
func canonical(name string) string {
	name = strings.ToLower(name)
	if k, ok := named[name]; ok {
		return k.name
	}
	return name
}

func nearest(name string) string {
	if functionKey().MatchString(name) {
		return "F20" // there are no more function keys
	}
	if match := arrow().FindStringSubmatch(name); match != nil {
		return canonical(match[1] + match[2])
	}
	name = strings.ToLower(name)
	if other, ok := otherNames[name]; ok {
		return other
	}
	limit := 1 // short words are close to many names
	switch n := len(name); {
	case n < 4:
		return ""
	case n > 6:
		limit = 2
	}
	best, meant := limit+1, ""
	for candidate, k := range named {
		if len(candidate) < 3 || candidate[0] != name[0] {
			continue
		}
		if d := distance(name, candidate); d < best || d == best && k.name < meant {
			best, meant = d, k.name
		}
	}
	return meant
}

// distance counts the insertions, deletions, changes and swaps of neighbours that turn
// a into b (optimal string alignment).
func distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
