package patch

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/words"
)

// Bounds of a patch.
const (
	MaxInput = 4 << 20 // bytes of a patch
	MaxHunks = 1000    // files that a patch names
	MaxFile  = 8 << 20 // bytes of a file that is updated, before and after

	maxChunks = 10_000 // of all hunks together
	maxPath   = 4096   // bytes of a path
)

// A Patch is a parsed patch.
type Patch struct {
	Hunks []Hunk
}

// Op is the operation of a hunk on its file.
type Op string

const (
	OpAdd    Op = "add"
	OpUpdate Op = "update"
	OpDelete Op = "delete"
)

// A Hunk is the change of one file.
type Hunk struct {
	Op     Op
	Path   string // as it is written
	MoveTo string // for an update: the new path, or empty
	Line   int    // line of its header in the patch, from 1

	Content string  // for an add: ends with a newline unless it is empty
	Chunks  []Chunk // for an update: none if the file is only moved
}

// A Chunk is one change of a file: it replaces a run of lines by another.
type Chunk struct {
	Contexts  []string // lines that come somewhere before it, in this order
	Lines     []Line
	EndOfFile bool // its lines must be the last of the file
	Line      int  // where it begins, in the patch
}

// A Line of a chunk.
type Line struct {
	Kind LineKind
	Text string // without its end
}

// LineKind says whether a line is kept, added or removed. It is the first character of the
// line.
type LineKind byte

const (
	Keep   LineKind = ' '
	Remove LineKind = '-'
	Insert LineKind = '+'
)

// old are the lines that are looked for in the file.
func (c Chunk) old() []string {
	var old []string
	for _, l := range c.Lines {
		if l.Kind != Insert {
			old = append(old, l.Text)
		}
	}
	return old
}

// Markers of the grammar.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File:"
	deleteFile = "*** Delete File:"
	updateFile = "*** Update File:"
	moveTo     = "*** Move to:"
	endOfFile  = "*** End of File"
	chunkMark  = "@@"
)

// Parse reads a patch. Errors are corral.ErrInvalid and name the line of text
// at which the patch is wrong, from 1.
func Parse(text string) (Patch, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return Patch{}, corral.Errorf(corral.ErrInvalid, grammarHint, "Invalid patch: input is empty.")
	case len(text) > MaxInput:
		return Patch{}, corral.Errorf(corral.ErrInvalid, "make several patches of it", "Invalid patch: it has %d bytes, more than %d", len(text), MaxInput)
	case !utf8.ValidString(text):
		return Patch{}, corral.Errorf(corral.ErrInvalid, "a patch is text in UTF-8", "Invalid patch: it is not UTF-8")
	}
	p := parser{lines: strings.Split(text, "\n")}
	if err := p.frame(); err != nil {
		return Patch{}, err
	}
	for p.next < p.end {
		if strings.TrimSpace(p.lines[p.next]) == "" {
			p.next++ // between hunks
			continue
		}
		if len(p.patch.Hunks) == MaxHunks {
			return Patch{}, p.wrong(p.next, "make several patches of it", "there are more than %d hunks", MaxHunks)
		}
		if err := p.hunk(); err != nil {
			return Patch{}, err
		}
	}
	return p.patch, nil
}

const grammarHint = "begin with '*** Begin Patch', then '*** Add File: PATH', '*** Update File: PATH' or '*** Delete File: PATH', and end with '*** End Patch'"

type parser struct {
	lines  []string
	next   int // the line to read
	end    int // the line of *** End Patch
	patch  Patch
	chunks int
}

// wrong is an error at a line, which is an index of p.lines.
func (p *parser) wrong(line int, hint, format string, args ...any) error {
	return corral.Errorf(corral.ErrInvalid, hint, "Invalid patch hunk at line %d: %s", line+1, fmt.Sprintf(format, args...))
}

// frame finds the first and the last line of the patch. It ignores space around the patch,
// a heredoc that a model wraps it in, and line ends of Windows.
func (p *parser) frame() error {
	first, last := 0, len(p.lines)-1
	blank := func(i int) bool { return strings.TrimSpace(p.lines[i]) == "" }
	for blank(first) {
		first++
	}
	for blank(last) {
		last--
	}
	switch strings.TrimSpace(p.lines[first]) {
	case "<<EOF", "<<'EOF'", `<<"EOF"`:
		if last > first && strings.TrimSpace(p.lines[last]) == "EOF" {
			first, last = first+1, last-1
			for first < last && blank(first) {
				first++
			}
			for last > first && blank(last) {
				last--
			}
		}
	}
	if strings.TrimSpace(p.lines[first]) != beginPatch {
		return corral.Errorf(corral.ErrInvalid, grammarHint, "The first line of the patch must be '%s': line %d is %q", beginPatch, first+1, cut(p.lines[first]))
	}
	if first == last || strings.TrimSpace(p.lines[last]) != endPatch {
		return corral.Errorf(corral.ErrInvalid, "the patch may have been cut off: send all of it", "The last line of the patch must be '%s': line %d is %q", endPatch, last+1, cut(p.lines[last]))
	}
	if strings.HasSuffix(p.lines[first], "\r") {
		for i := range p.lines {
			p.lines[i] = strings.TrimSuffix(p.lines[i], "\r")
		}
	}
	p.next, p.end = first+1, last
	return nil
}

// header is the path after a marker.
func header(line, marker string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), marker)
	return strings.TrimSpace(rest), ok
}

func (p *parser) hunk() error {
	at, line := p.next, p.lines[p.next]
	h := Hunk{Line: at + 1}
	read := p.update
	var ok bool
	if h.Path, ok = header(line, addFile); ok {
		h.Op, read = OpAdd, p.add
	} else if h.Path, ok = header(line, deleteFile); ok {
		h.Op, read = OpDelete, func(*Hunk) error { return nil }
	} else if h.Path, ok = header(line, updateFile); ok {
		h.Op = OpUpdate
	} else {
		return p.wrong(at, grammarHint, "%q is not the header of a hunk", cut(line))
	}
	if err := p.checkPath(at, h.Path); err != nil {
		return err
	}
	p.next++
	if err := read(&h); err != nil {
		return err
	}
	p.patch.Hunks = append(p.patch.Hunks, h)
	return nil
}

func (p *parser) checkPath(at int, path string) error {
	switch {
	case path == "":
		return p.wrong(at, "write it after the colon", "the path is missing")
	case len(path) > maxPath:
		return p.wrong(at, "", "the path has %d bytes, more than %d", len(path), maxPath)
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return p.wrong(at, "", "the path %q has a control character", cut(path))
	}
	return nil
}

// add reads the lines of a new file.
func (p *parser) add(h *Hunk) error {
	var b strings.Builder
	for ; p.next < p.end; p.next++ {
		text, ok := strings.CutPrefix(p.lines[p.next], "+")
		if !ok {
			break
		}
		b.WriteString(text + "\n")
	}
	h.Content = b.String()
	if p.next < p.end && !isHeader(p.lines[p.next]) && strings.TrimSpace(p.lines[p.next]) != "" {
		return p.wrong(p.next, "begin every line of a new file with '+'", "%q is not a line of the new file %s", cut(p.lines[p.next]), cut(h.Path))
	}
	return nil
}

func isHeader(line string) bool {
	for _, marker := range []string{addFile, deleteFile, updateFile} {
		if _, ok := header(line, marker); ok {
			return true
		}
	}
	return false
}

// update reads the chunks of a file.
func (p *parser) update(h *Hunk) error {
	if p.next < p.end {
		if to, ok := header(p.lines[p.next], moveTo); ok {
			if err := p.checkPath(p.next, to); err != nil {
				return err
			}
			h.MoveTo = to
			p.next++
		}
	}
	for p.next < p.end {
		line := p.lines[p.next]
		if strings.HasPrefix(line, "***") && isHeader(line) {
			break
		}
		if strings.TrimSpace(line) == "" && p.skipBlank(len(h.Chunks) > 0) {
			continue
		}
		if p.chunks++; p.chunks > maxChunks {
			return p.wrong(p.next, "make several patches of it", "there are more than %d chunks", maxChunks)
		}
		c, err := p.chunk(len(h.Chunks) == 0)
		if err != nil {
			return err
		}
		h.Chunks = append(h.Chunks, c)
	}
	if len(h.Chunks) == 0 && h.MoveTo == "" {
		return p.wrong(h.Line-1, "give it lines that begin with ' ', '-' or '+'", "the update of %s is empty", cut(h.Path))
	}
	return nil
}

// skipBlank skips blank lines between chunks or before a marker. Elsewhere they are empty
// lines of the file.
func (p *parser) skipBlank(afterChunk bool) bool {
	i := p.next
	for i < p.end && strings.TrimSpace(p.lines[i]) == "" {
		i++
	}
	if i < p.end && !afterChunk && !strings.HasPrefix(p.lines[i], chunkMark) && !strings.HasPrefix(p.lines[i], "***") {
		return false
	}
	p.next = i
	return true
}

// lineNumbers matches the line numbers of a unified diff after @@. They are ignored, since
// lines are found by their content.
var lineNumbers = lazy.Regexp(`^-\d+(,\d+)? \+\d+(,\d+)? @@`)

// chunk reads one chunk. The first chunk may lack its mark.
func (p *parser) chunk(first bool) (Chunk, error) {
	c := Chunk{Line: p.next + 1}
	marked := false
	for ; p.next < p.end && strings.HasPrefix(p.lines[p.next], chunkMark); p.next++ {
		rest, spaced := strings.CutPrefix(p.lines[p.next][len(chunkMark):], " ")
		if !spaced && strings.TrimSpace(rest) != "" {
			return c, p.wrong(p.next, "write '@@', or '@@ ' and a line of the file", "%q is not the mark of a chunk", cut(p.lines[p.next]))
		}
		marked = true
		if strings.TrimSpace(rest) != "" && !lineNumbers().MatchString(rest) {
			c.Contexts = append(c.Contexts, rest)
		}
	}
	if !marked && !first {
		return c, p.wrong(p.next, "begin every chunk but the first with '@@'", "%q is not the mark of a chunk", cut(p.lines[p.next]))
	}
	blank := 0 // lines at the end without even a space
	for ; p.next < p.end; p.next++ {
		line := p.lines[p.next]
		switch {
		case line == "":
			c.Lines = append(c.Lines, Line{Kind: Keep})
			blank++
			continue
		case line[0] == byte(Keep), line[0] == byte(Remove), line[0] == byte(Insert):
			c.Lines = append(c.Lines, Line{LineKind(line[0]), line[1:]})
			blank = 0
			continue
		case strings.TrimSpace(line) == endOfFile && len(c.Lines) > 0:
			c.EndOfFile = true
			p.next++
		case strings.HasPrefix(line, chunkMark) && len(c.Lines) > 0, isHeader(line) && len(c.Lines) > 0:
		case len(c.Lines) == 0:
			return c, p.wrong(p.next, "begin its lines with ' ', '-' or '+'", "the chunk has no lines: %q is none", cut(line))
		default:
			return c, p.wrong(p.next, "begin it with ' ' to keep it, '-' to remove it, '+' to add it", "%q is not a line of a chunk", cut(line))
		}
		return c.withoutSeparator(blank), nil
	}
	if len(c.Lines) == 0 {
		return c, p.wrong(c.Line-1, "begin its lines with ' ', '-' or '+'", "the chunk has no lines")
	}
	return c.withoutSeparator(blank), nil
}

// withoutSeparator drops the blank lines at the end of a chunk that only adds lines. They
// separate it from the next part of the patch, and are not in the file.
func (c Chunk) withoutSeparator(blank int) Chunk {
	if n := len(c.Lines) - blank; n > 0 && len(c.old()) == blank {
		c.Lines = c.Lines[:n]
	}
	return c
}

// maxShown is how many bytes of a line an error shows.
const maxShown = 120

func cut(text string) string { return words.Cut(text, maxShown) }
