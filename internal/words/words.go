// Package words fits text of any origin into lines that people and logs read.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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

// Cut is the beginning of a text that is longer than n bytes, with an ellipsis. It cuts
// between characters.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return wholeStart(text, n) + "…"
}

// QuoteStart quotes the first n bytes of a text, for an error. An ellipsis follows if that
// is not all of it.
func QuoteStart(text string, n int) string {
	if len(text) > n {
		return strconv.Quote(strings.ToValidUTF8(text[:n], "")) + "…"
	}
	return strconv.Quote(text)
}

// Ends are the first and the last half of n bytes of a longer text, cut between
// characters.
func Ends(text string, n int) (head, tail string) {
	from := len(text) - n/2
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return wholeStart(text, n/2), text[from:]
}

// wholeStart is the first n bytes of a longer text, without a part of a character.
func wholeStart(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
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

// Quote quotes a word, if needed, so that a shell reads it as it is.
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

// List joins words with commas.
func List[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// Bytes is a number of bytes in a unit for people.
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

// Age is a duration for people, with the two largest units at most.
func Age(d time.Duration) string {
	d = max(d, 0)
	two := func(unit time.Duration, name string, smaller time.Duration, smallerName string) string {
		text := fmt.Sprint(int64(d/unit)) + name
		if n := d % unit / smaller; n > 0 {
			text += fmt.Sprint(int64(n)) + smallerName
		}
		return text
	}
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return two(time.Minute, "m", time.Second, "s")
	case d < day:
		return two(time.Hour, "h", time.Minute, "m")
	}
	return two(day, "d", time.Hour, "h")
}

// Printable is text on one line, without characters that affect a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		// Marks of direction make text look like another.
		if unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, OneLine(text))
}
