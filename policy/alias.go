package policy

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/programs"
)

// asNamed is the words of a segment by every name that its program has: as it is
// written, where it is found, and what that is a link to. What a program does with
// its options is known by its name, and editor, nawk or cc are others for one.
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

// manyInOne are programs that are another one by each of their names, so that the
// name of the file says nothing.
var manyInOne = strings.Fields("busybox toybox coreutils")

// otherNames are the names of the files at these paths that are not the one that
// is written.
func otherNames(written string, files ...string) []string {
	have := []string{programs.NormalizeName(written)}
	for _, file := range files {
		if name := programs.NormalizeName(file); file != "" && !slices.Contains(have, name) && !slices.Contains(manyInOne, name) {
			have = append(have, name)
		}
	}
	return have[1:]
}

// peelNamed is what the segment runs by another name of its program: a link to
// env is one. Without one that runs others it is l.
func (seg *Segment) peelNamed(l programs.Layer) programs.Layer {
	for _, words := range seg.asNamed()[1:] {
		if other := programs.Peel(words); other.Kind != programs.LayerNone {
			return other
		}
	}
	return l
}
