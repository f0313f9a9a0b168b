package session

import (
	"strings"
	"unicode"
)

// maxName bounds the argument in a name, in characters.
const maxName = 48

// Name is a short name of a command for lists: its verb and its first argument that is
// no flag (else its first argument), without quotes; a long argument is cut in the
// middle. It is only for people.
func Name(command string) string {
	words := shellWords(command)
	if len(words) == 0 {
		return ""
	}
	verb := middleCut(words[0], maxName)
	if len(words) == 1 {
		return verb
	}
	object := words[1]
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") {
			object = w
			break
		}
	}
	return verb + " " + middleCut(object, maxName)
}

// shellWords splits text at white space outside quotes. Control characters
// become spaces: a name is one line.
func shellWords(text string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	flush := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range text {
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && unicode.IsSpace(r):
			if flush(); len(words) > 100 {
				return words
			}
		case unicode.IsControl(r):
			word.WriteByte(' ')
			begun = true
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	flush()
	return words
}

func middleCut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	head := (n - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
