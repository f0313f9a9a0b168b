package patch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// A MatchError says that the lines that a chunk changes are not in the file. It
// is a corral.ErrInvalid.
type MatchError struct {
	Path     string   `json:"path"`
	Chunk    int      `json:"chunk"`    // its number in the hunk, from 1
	Line     int      `json:"line"`     // the line where it begins in the patch
	Context  bool     `json:"context"`  // Expected is a line after @@
	Expected []string `json:"expected"` // at most maxDiff of them
	Nearest  *Nearest `json:"nearest,omitempty"`
}

// Nearest is the place in a file that is most like the expected lines.
type Nearest struct {
	Line int `json:"line"` // in the file, from 1
	// Diff is from the expected lines ('-') to those of the file ('+').
	Diff []string `json:"diff"`
	// Before: exactly these lines are in the file, but too early. The chunks of a patch
	// must be in the order of the file.
	Before bool `json:"before,omitempty"`
}

func (e *MatchError) Error() string {
	what := "expected lines in " + e.Path
	if e.Context {
		what = fmt.Sprintf("context '%s' in %s", cut(e.Expected[0]), e.Path)
	}
	text := fmt.Sprintf("Failed to find %s: chunk %d, at line %d of the patch", what, e.Chunk, e.Line)
	switch {
	case e.Nearest == nil:
		return text + "; nothing in the file is like it"
	case e.Nearest.Before:
		return text + fmt.Sprintf("; it is at line %d of the file, before where the chunk can apply", e.Nearest.Line)
	}
	return text + fmt.Sprintf("; the nearest is at line %d of the file", e.Nearest.Line)
}

// Unwrap says that it is an ErrInvalid.
func (e *MatchError) Unwrap() error { return corral.ErrInvalid }

func (e *MatchError) hint() string {
	if e.Nearest != nil && e.Nearest.Before {
		return "put the chunks in the order of the file, and copy enough lines around a change to tell it from others"
	}
	return "read the file again, and copy its lines exactly"
}

// detail is the part of the message with several lines.
func (e *MatchError) detail() string {
	var b strings.Builder
	b.WriteString("Expected:\n")
	for _, l := range e.Expected {
		b.WriteString("  " + l + "\n")
	}
	if e.Nearest != nil && !e.Nearest.Before {
		fmt.Fprintf(&b, "Nearest, at line %d of %s (- expected, + in the file):\n", e.Nearest.Line, e.Path)
		for _, l := range e.Nearest.Diff {
			b.WriteString("  " + l + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// A replacement replaces the lines [from, to) of a file.
type replacement struct {
	from, to int
	with     []fileLine
}

// update applies the chunks of a hunk to a file's content.
func update(h Hunk, content []byte) ([]byte, error) {
	if len(h.Chunks) == 0 {
		return content, nil
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return nil, corral.Errorf(corral.ErrInvalid, "use a command for it", "Failed to update %s: it is a binary file (it has a NUL byte)", h.Path)
	}
	lines, mark := splitLines(content)
	if len(lines) > maxLines {
		return nil, corral.Errorf(corral.ErrInvalid, "use a command for it", "Failed to update %s: it has more than %d lines", h.Path, maxLines)
	}
	r := newReduced(lines)
	var edits []replacement
	at := 0 // chunks are in the order of the file
	for i, c := range h.Chunks {
		fail := func(want []string, context bool, from int) error {
			if r.compared > maxSearched {
				return corral.Errorf(corral.ErrInvalid, "make several patches of it, or copy the lines exactly",
					"Failed to update %s: to find the lines of its chunks takes more than %d comparisons", h.Path, maxSearched)
			}
			return &MatchError{Path: h.Path, Chunk: i + 1, Line: c.Line, Context: context, Expected: shownLines(want), Nearest: r.nearest(want, from)}
		}
		for _, context := range c.Contexts {
			found := r.find([]string{context}, at, false)
			if found < 0 {
				return nil, fail([]string{context}, true, at)
			}
			at = found + 1
		}
		old := c.old()
		if len(old) == 0 {
			edits = append(edits, insertion(c, at, len(lines)))
			continue
		}
		found := r.find(old, at, c.EndOfFile)
		for want := old; found < 0 && len(want) > 1 && c.endsBlank() && r.compared <= maxSearched; {
			// The empty line may only separate the chunk from the next.
			c.Lines, want = c.Lines[:len(c.Lines)-1], want[:len(want)-1]
			found = r.find(want, at, c.EndOfFile)
		}
		if found < 0 {
			return nil, fail(old, false, at)
		}
		edits = append(edits, c.replace(lines, found))
		at = edits[len(edits)-1].to
	}
	// Insertions at the end of the file come after a replacement of its last lines.
	slices.SortStableFunc(edits, func(a, b replacement) int { return a.from - b.from })
	var out []fileLine
	done := 0
	for _, e := range edits {
		out = append(append(out, lines[done:e.from]...), e.with...)
		done = e.to
	}
	return joinLines(mark, append(out, lines[done:]...), lineEnd(lines)), nil
}

// endsBlank reports whether the chunk ends with an empty line to keep.
func (c Chunk) endsBlank() bool { return c.Lines[len(c.Lines)-1] == Line{Kind: Keep} }

// insertion is the replacement for a chunk without lines to find: it inserts after its
// context, or at the end of the file.
func insertion(c Chunk, at, end int) replacement {
	if len(c.Contexts) == 0 || c.EndOfFile {
		at = end
	}
	var with []fileLine
	for _, l := range c.Lines {
		with = append(with, fileLine{text: l.Text})
	}
	return replacement{at, at, with}
}

// replace is the replacement for a chunk that was found at a line. Lines that it keeps
// stay as in the file, even if they matched only loosely.
func (c Chunk) replace(lines []fileLine, at int) replacement {
	r := replacement{from: at, to: at}
	for _, l := range c.Lines {
		switch l.Kind {
		case Keep:
			r.with = append(r.with, lines[r.to])
			r.to++
		case Remove:
			r.to++
		case Insert:
			end := lineEnd(lines)
			if r.to > 0 {
				end = lines[r.to-1].end
			}
			r.with = append(r.with, fileLine{l.Text, end})
		}
	}
	return r
}
