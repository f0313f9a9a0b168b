package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/corral-exec/corral/internal/programs"
)

// word expands a word, as far as the result is certain.
func (s *script) word(w *syntax.Word) Word {
	b := wordBuilder{static: true, certain: true}
	if w == nil {
		return Word{}
	}
	if w.Lit() == "[" { // the program; a pattern would have a "]"
		return programs.Literal("[")
	}
	joined := strings.ReplaceAll(s.source(w), "\\\n", "")
	braces := strings.Contains(joined, ",") || strings.Contains(joined, "..")
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.unquoted(p.Value, i == 0, braces)
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				b.unsure()
				continue
			}
			b.add(p.Value)
		case *syntax.DblQuoted:
			b.quoted(p)
		case *syntax.ExtGlob:
			b.unsure()
		default: // it may become several words
			b.unsure()
			b.prefix.Reset()
			b.split = true
		}
	}
	if b.static {
		return programs.Literal(b.prefix.String())
	}
	if b.split {
		return Word{Text: s.source(w)}
	}
	return Word{Text: s.source(w), Prefix: b.prefix.String()}
}

// A wordBuilder collects the certain beginning of a word.
type wordBuilder struct {
	prefix  strings.Builder
	static  bool // the whole word is certain
	certain bool // all parts so far are certain
	split   bool // it may become several words
}

func (b *wordBuilder) add(s string) {
	if b.certain {
		b.prefix.WriteString(s)
	}
}

func (b *wordBuilder) unsure() { b.static, b.certain = false, false }

// unquoted adds text outside of quotes.
func (b *wordBuilder) unquoted(v string, first, braces bool) {
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '\\' && i+1 < len(v):
			i++
			if v[i] != '\n' {
				b.add(v[i : i+1])
			}
		case c == '*' || c == '?' || c == '[' || c == '{' && braces:
			b.unsure()
		case c == '~' && (first && i == 0 || i > 0 && (v[i-1] == '=' || v[i-1] == ':')):
			if first && i == 0 {
				b.add("/") // of the home directory
			}
			b.unsure()
		default:
			b.add(v[i : i+1])
		}
	}
}

// quoted adds text in double quotes.
func (b *wordBuilder) quoted(q *syntax.DblQuoted) {
	if q.Dollar {
		b.unsure() // translated
		return
	}
	for _, part := range q.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			v := p.Value
			for i := 0; i < len(v); i++ {
				if v[i] == '\\' && i+1 < len(v) && strings.IndexByte("$`\"\\\n", v[i+1]) >= 0 {
					i++
					if v[i] == '\n' {
						continue
					}
				}
				b.add(v[i : i+1])
			}
		case *syntax.ParamExp:
			b.unsure()
			if p.Param == nil || p.Param.Value == "@" || p.Index != nil || p.Excl {
				b.prefix.Reset()
				b.split = true
			}
		default:
			b.unsure()
		}
	}
}
