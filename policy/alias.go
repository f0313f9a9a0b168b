package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
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
		all = append(all, append([]Word{Literal(name)}, seg.Words[1:]...))
	}
	return all
}

// manyInOne are programs that are another one by each of their names, so that the
// name of the file says nothing.
var manyInOne = strings.Fields("busybox toybox coreutils")

// otherNames are the names of the files at these paths that are not the one that
// is written.
func otherNames(written string, files ...string) []string {
	have := []string{normalizeName(written)}
	for _, file := range files {
		if name := normalizeName(file); file != "" && !slices.Contains(have, name) && !slices.Contains(manyInOne, name) {
			have = append(have, name)
		}
	}
	return have[1:]
}

// variant is what the names of one program differ by: the system that it compiles
// for, and how it was built.
var variant = regexp.MustCompile(`^[a-z0-9_]+-(?:[a-z0-9_]+-)?(?:linux|gnu|darwin|freebsd|w64)[a-z0-9_]*-(?:[a-z0-9_]+-)?|\.(?:bfd|gold|basic|tiny|nox|athena|gtk3?|motif|openbsd|traditional|ucb|real|distrib|bin)$`)

// plainName is a name without what tells variants of one program apart.
func plainName(name string) string {
	return path.Base(variant.ReplaceAllString(family(name), ""))
}

// peelNamed is what the segment runs by another name of its program: a link to
// env is one. Without one that runs others it is l.
func (seg *Segment) peelNamed(l layer) layer {
	for _, words := range seg.asNamed()[1:] {
		if other := peel(words); other.kind != layerNone {
			return other
		}
	}
	return l
}
