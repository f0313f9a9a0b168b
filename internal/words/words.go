// Package words fits text of any origin into lines that people and logs read.
package words

import (
	"fmt"
	"strings"
)

// OneLine makes one line of text, without control sequences.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(StripANSI(text), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// Short cuts text to n characters. The last one is then an ellipsis.
func Short(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:max(0, n-1)]) + "…"
	}
	return text
}

// Sentence gives a message a capital letter and a full stop.
func Sentence(text string) string {
	r := []rune(text)
	if len(r) == 0 {
		return ""
	}
	if r[0] >= 'a' && r[0] <= 'z' {
		r[0] -= 'a' - 'A'
	}
	if last := r[len(r)-1]; last != '.' && last != '!' && last != '?' {
		r = append(r, '.')
	}
	return string(r)
}

// Quote is a word that a shell reads as it is.
func Quote(word string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("/._-=:,+@%", r) || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Or lists words as alternatives.
func Or(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Bytes is a number of bytes as people read it.
func Bytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		switch {
		case n >= u.size && n%u.size == 0:
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		case n >= u.size:
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
