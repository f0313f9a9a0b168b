package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// apostrophes finds single quotes in an expansion that is in double quotes or in a
// here-document: "${x:-'$(ls)'}". The parser takes them for quotes. To shells they are
// characters, except in some patterns, and what is between them is expanded.
func (s *script) apostrophes(parts []syntax.WordPart) {
	for _, part := range parts {
		expansion, ok := part.(*syntax.ParamExp)
		if !ok {
			continue
		}
		syntax.Walk(expansion, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst, *syntax.ProcSubst: // quotes begin anew
				return false
			case *syntax.SglQuoted:
				if n.Dollar || strings.ContainsAny(n.Value, "$`\\\"}") {
					f := s.at(Expansion, expansion, "has single quotes that shells take for characters")
					if strings.Contains(n.Value, "$(") || strings.Contains(n.Value, "`") {
						f.Kind = Substitution
					}
					f.unknown = true
					s.find(f)
				}
			}
			return true
		})
	}
}
