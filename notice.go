package corral

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNotice is how long an Info.Notice may be, in bytes.
const MaxNotice = 2 << 10

// JoinNotice makes one Info.Notice of parts; empty ones are left out. It
// is one line of at most MaxNotice bytes that does nothing to a terminal: parts
// can come from a node.
func JoinNotice(parts ...string) string {
	var some []string
	for _, part := range parts {
		if part != "" {
			some = append(some, part)
		}
	}
	notice := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(strings.Join(some, "; "), "\ufffd"))
	if len(notice) <= MaxNotice {
		return notice
	}
	const more = "…"
	cut := MaxNotice - len(more)
	for !utf8.RuneStart(notice[cut]) {
		cut--
	}
	return notice[:cut] + more
}
