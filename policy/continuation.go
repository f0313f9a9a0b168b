package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// continued finds a dollar sign that a line continuation parts from what it
// expands. A shell removes the continuation before it looks, also in double
// quotes and here-documents, where the parser takes both for text.
func (s *script) continued(n *syntax.Lit) {
	text := s.source(n)
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "$\\\n"):
			f := s.at(Expansion, n, "continues on another line within an expansion")
			rest := strings.TrimLeft(s.text[int(n.Pos().Offset())+i+1:], "\\\n")
			if strings.HasPrefix(rest, "(") && !strings.HasPrefix(rest, "((") {
				f.Kind = Substitution
			}
			f.unknown = true
			s.find(f)
			return
		case text[i] == '\\':
			i++ // and what it quotes
		}
	}
}
