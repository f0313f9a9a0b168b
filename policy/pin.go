package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// pin rewrites a command with the path of every program in it. If some of its programs
// are not known, it returns nil and the reason. It changes the scripts.
func (r *reading) pin() (*Pinned, string) {
	for _, c := range r.calls {
		for _, seg := range c.segments {
			switch {
			case seg.By == byBuiltin:
			case seg.Path == "" || seg.Words[0].At == 0:
				return nil, "a program of it has no path"
			}
		}
	}
	if len(r.req.Args) > 0 {
		return r.calls[0].pinned()
	}
	if len(r.scripts) != 1 || r.scripts[0].file == nil {
		return nil, "it is read in more than one way"
	}
	s := r.scripts[0]
	if c := s.simple(); c != nil {
		return c.pinned()
	}
	text, err := textOf{scripts: r.scripts}.pin()
	if err != nil {
		return nil, err.Error()
	}
	shell := "/bin/sh"
	if len(r.req.Shell) > 0 {
		switch filepath.Base(r.req.Shell[0]) {
		case "sh", "bash", "dash":
			got := r.search(sought{r.req.Dir, r.req.Shell[0]})
			if got.path == "" {
				return nil, "the shell " + r.req.Shell[0] + ": " + got.why
			}
			shell = got.path
		}
	}
	return &Pinned{Args: []string{shell, "-c", text}}, ""
}

// simple is the only call of a script whose words are all certain, so that no shell is
// needed to run it; nil for any other script.
func (s *script) simple() *call {
	if len(s.calls) != 1 || len(s.findings) > 0 || len(s.file.Stmts) != 1 || s.calls[0].segments[0].By == byBuiltin {
		return nil
	}
	if _, ok := s.file.Stmts[0].Cmd.(*syntax.CallExpr); !ok {
		return nil
	}
	for _, w := range s.calls[0].words {
		if !w.Static {
			return nil
		}
	}
	return s.calls[0]
}

// pinned is the words of the call, with paths in place of programs, also in the texts for
// shells. If they cannot be written so, it is nil and the reason.
func (c *call) pinned() (*Pinned, string) {
	var words []string
	for _, w := range c.words {
		words = append(words, w.Text)
	}
	for _, seg := range c.segments {
		words[seg.Words[0].At-1] = seg.Path
	}
	for _, inner := range c.inner {
		if inner.at == 0 {
			return nil, errSeveralWords.Error()
		}
		text, err := inner.pin()
		if err != nil {
			return nil, err.Error()
		}
		words[inner.at-1] = text
	}
	return &Pinned{Args: words}, ""
}

var errSeveralWords = errors.New("the text of a shell in it is made of several words")

// pin is the text with the programs of all its calls pinned.
func (t textOf) pin() (string, error) {
	if len(t.scripts) != 1 || t.scripts[0].file == nil {
		return "", fmt.Errorf("it is read in more than one way")
	}
	s := t.scripts[0]
	for _, c := range s.calls {
		for _, seg := range c.segments {
			if seg.By != byBuiltin {
				c.expr.Args[seg.Words[0].At-1] = quoted(seg.Path)
			}
		}
		for _, inner := range c.inner {
			if inner.at == 0 {
				return "", errSeveralWords
			}
			text, err := inner.pin()
			if err != nil {
				return "", err
			}
			c.expr.Args[inner.at-1] = quoted(text)
		}
	}
	return s.print()
}

// quoted is s as a word of a shell, in quotes.
func quoted(s string) *syntax.Word {
	var parts []syntax.WordPart
	for i, run := range strings.Split(s, "'") {
		if i > 0 {
			parts = append(parts, &syntax.Lit{Value: `\'`})
		}
		parts = append(parts, &syntax.SglQuoted{Value: run})
	}
	return &syntax.Word{Parts: parts}
}
