package policy

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/programs"
)

// asNamed is the words of a segment with each name of its program: the name as
// written, that of the file found, and that of the file it is a link to. The tables of
// options go by name, and editor, nawk or cc are links to programs with other names.
func (seg *Segment) asNamed() [][]Word {
	all := [][]Word{seg.Words}
	if len(seg.Words) == 0 || !seg.Words[0].Static {
		return all
	}
	for _, name := range otherNames(seg.Words[0].Text, seg.Path, seg.RealPath) {
		all = append(all, append([]Word{programs.Literal(name)}, seg.Words[1:]...))
	}
	return all
}

// manyInOne are programs that act as another program for each of their names, so the
// name of their file says nothing.
var manyInOne = strings.Fields("busybox toybox coreutils")

// otherNames are the names of these files, without the name as written.
func otherNames(written string, files ...string) []string {
	have := []string{programs.NormalizeName(written)}
	for _, file := range files {
		if name := programs.NormalizeName(file); file != "" && !slices.Contains(have, name) && !slices.Contains(manyInOne, name) {
			have = append(have, name)
		}
	}
	return have[1:]
}

// peelNamed is the layer of the first other name of the program that is a wrapper,
// such as a link to env. If there is none, it is l.
func (seg *Segment) peelNamed(l programs.Layer) programs.Layer {
	for _, words := range seg.asNamed()[1:] {
		if other := programs.Peel(words); other.Kind != programs.LayerNone {
			return other
		}
	}
	return l
}
