package corral

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNotice bounds an Info.Notice, in bytes.
const MaxNotice = 2 << 10

// JoinNotice joins parts into one Info.Notice; empty ones are left out. The result is
// one line of at most MaxNotice bytes, without control characters: parts can come from
// a node.
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
