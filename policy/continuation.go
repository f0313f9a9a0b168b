package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// continued finds a line continuation between a dollar sign and the name or
// parenthesis behind it. A shell removes the continuation and then expands. In double
// quotes and here-documents the parser takes both for text.
func (s *script) continued(n *syntax.Lit) {
	text := s.source(n)
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "$\\\n"):
			f := s.at(Expansion, n, "continues on another line within an expansion")
			rest := s.text[int(n.Pos().Offset())+i+1:]
			for strings.HasPrefix(rest, "\\\n") {
				rest = rest[2:]
			}
			if strings.HasPrefix(rest, `\`) {
				continue // the next character is quoted, so the dollar sign stands for itself
			}
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

// joined is the source of a command without its line continuations, as a shell reads
// it. In single quotes and in the text of here-documents they stay.
func (s *script) joined(n syntax.Node) string {
	text := s.source(n)
	if !strings.Contains(text, "\\\n") {
		return text
	}
	start := int(n.Pos().Offset())
	var b strings.Builder
	done := 0
	join := func(to int) { // the text up to it has no quoted part
		for done < to {
			switch rest := text[done:to]; {
			case strings.HasPrefix(rest, "\\\n"):
				done += 2
			case rest[0] == '\\' && len(rest) > 1:
				b.WriteString(rest[:2])
				done += 2
			default:
				b.WriteByte(rest[0])
				done++
			}
		}
	}
	keep := func(part syntax.Node) {
		from, to := int(part.Pos().Offset())-start, int(part.End().Offset())-start
		if from >= done && from <= to && to <= len(text) {
			join(from)
			b.WriteString(text[done:to])
			done = to
		}
	}
	syntax.Walk(n, func(part syntax.Node) bool {
		switch part := part.(type) {
		case *syntax.SglQuoted:
			keep(part)
		case *syntax.Redirect:
			if part.Hdoc != nil {
				keep(part.Hdoc)
				return false
			}
		}
		return true
	})
	join(len(text))
	return b.String()
}
