package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// known is what survivors.txt says. Its lines are
//
//	complete FILE
//
// for a file each of whose survivors is explained, and for each of these
//
//	FILE: KIND CHANGE: EXPRESSION
//		SOURCE LINE
//		# explanation
//
// which is what is printed of it, without line and column, since these change.
// Lines that start with # are comments.
type known struct {
	complete map[string]bool
	reasons  []*reason
}

type reason struct {
	mutant, source string
	explained      bool
	used           bool
}

func readSurvivors(file string) (*known, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k := &known{complete: map[string]bool{}}
	var last *reason
	for i, line := range strings.Split(string(data), "\n") {
		text := strings.TrimSpace(line)
		indented := strings.HasPrefix(line, "\t")
		name, complete := strings.CutPrefix(text, "complete ")
		switch {
		case indented && last != nil && strings.HasPrefix(text, "# "):
			last.explained = true
		case indented && last != nil && last.source == "":
			last.source = text
		case text == "" || strings.HasPrefix(line, "#"):
		case indented:
			return nil, fmt.Errorf("%s:%d: this belongs to no survivor", file, i+1)
		case complete:
			k.complete[name] = true
		default:
			last = &reason{mutant: text}
			k.reasons = append(k.reasons, last)
		}
	}
	for _, r := range k.reasons {
		if !r.explained || r.source == "" {
			return nil, fmt.Errorf("%s: %s: its line or the explanation is missing", file, r.mutant)
		}
	}
	return k, nil
}

// key is how survivors.txt names a mutant.
func (m *mutant) key() string { return fmt.Sprintf("%s: %s %s: %s", m.file, m.kind, m.change, m.expr) }

// explain tells whether the survival of a mutant is explained.
func (k *known) explain(m *mutant) bool {
	found := false
	for _, r := range k.reasons {
		if r.mutant == m.key() && r.source == m.source {
			r.used, found = true, true
		}
	}
	return found
}

// unused are the explanations for files of mutants that none of them needed.
func (k *known) unused(mutants []*mutant) (lines []string) {
	for _, r := range k.reasons {
		file, _, _ := strings.Cut(r.mutant, ": ")
		here := slices.ContainsFunc(mutants, func(m *mutant) bool { return m.file == file })
		if here && !r.used {
			lines = append(lines, fmt.Sprintf("no survivor is %s: remove its explanation", r.mutant))
		}
	}
	return lines
}
