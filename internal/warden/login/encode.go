//go:build linux

package login

import "strings"

// encode is a snapshot as strings that NUL bytes end: a word, why, the environment, an
// empty string, and three strings a file.
func (s snapshot) encode() string {
	var b strings.Builder
	put := func(text string) { b.WriteString(strings.ReplaceAll(text, "\x00", "") + "\x00") }
	if s.again {
		put("again")
	} else {
		put("taken")
	}
	put(s.why)
	for _, v := range s.env {
		put(v)
	}
	put("")
	for _, w := range s.watches {
		put(w.path)
		put(w.state)
		if w.content {
			put("content")
		} else {
			put("")
		}
	}
	return b.String()
}

// decode undoes encode; false: it is not whole.
func decode(text string) (s snapshot, ok bool) {
	parts := strings.Split(text, "\x00")
	if len(parts) < 4 || parts[len(parts)-1] != "" {
		return snapshot{}, false
	}
	s.again, s.why = parts[0] == "again", parts[1]
	parts = parts[2 : len(parts)-1]
	for len(parts) > 0 && parts[0] != "" {
		s.env, parts = append(s.env, parts[0]), parts[1:]
	}
	if len(parts)%3 != 1 {
		return snapshot{}, false
	}
	for parts = parts[1:]; len(parts) > 0; parts = parts[3:] {
		s.watches = append(s.watches, watch{path: parts[0], state: parts[1], content: parts[2] == "content"})
	}
	return s, len(s.watches) > 0
}
