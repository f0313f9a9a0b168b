package patch

import (
	"bytes"
	"strings"
	"unicode"
)

// A fileLine is a line of a file with its end: "\n", "\r\n", or nothing at the end of a
// file without a newline there.
type fileLine struct{ text, end string }

const bom = "\ufeff"

// splitLines splits a file into lines. If the file ends with a newline, joinLines restores
// the same bytes. A byte order mark is returned separately, since patches do not have it in
// their lines.
func splitLines(content []byte) (lines []fileLine, mark string) {
	rest, marked := strings.CutPrefix(string(content), bom)
	if marked {
		mark = bom
	}
	for rest != "" {
		text, after, ended := strings.Cut(rest, "\n")
		l := fileLine{text: text}
		if ended {
			l.end = "\n"
			if short, ok := strings.CutSuffix(text, "\r"); ok {
				l = fileLine{short, "\r\n"}
			}
		}
		lines = append(lines, l)
		rest = after
	}
	return lines, mark
}

// joinLines makes a file of lines. A line without an end gets that of the line before, or
// if there is none, the given end.
func joinLines(mark string, lines []fileLine, end string) []byte {
	var b bytes.Buffer
	b.WriteString(mark)
	for _, l := range lines {
		if l.end != "" {
			end = l.end
		}
		b.WriteString(l.text + end)
	}
	return b.Bytes()
}

// lineEnd is the line end that a file uses: that of its first line.
func lineEnd(lines []fileLine) string {
	if len(lines) > 0 && lines[0].end != "" { // only the last line can have no end
		return lines[0].end
	}
	return "\n"
}

// A leniency reduces a line of a patch and a line of a file to the part that has to be
// equal.
type leniency func(string) string

// leniencies are in order, from the strictest. A looser one is tried only if the whole rest
// of the file has no match by a stricter one.
var leniencies = []leniency{
	func(s string) string { return s },
	func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) },
	strings.TrimSpace,
	normal,
}

// normal is a line without space around it, with plain punctuation in place of
// typographic punctuation, as models write it.
func normal(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch r {
		case '‐', '‑', '‒', '–', '—', '―', '−':
			return '-'
		case '‘', '’', '‚', '‛':
			return '\''
		case '“', '”', '„', '‟':
			return '"'
		case '\u00a0', '\u1680', '\u202f', '\u205f', '\u3000':
			return ' '
		}
		if '\u2000' <= r && r <= '\u200a' {
			return ' '
		}
		return r
	}, s))
}

// reduced are the lines of a file under each leniency, made when needed.
type reduced struct {
	lines    []fileLine
	by       [][]string
	compared int // lines, so far
}

// Looking for lines, which a patch can make as hard as it likes, is bounded by these.
const (
	maxLines    = 1 << 20 // of a file
	maxSearched = 1 << 27 // lines compared, for a hunk: about a second
)

func newReduced(lines []fileLine) *reduced {
	return &reduced{lines: lines, by: make([][]string, len(leniencies))}
}

func (r *reduced) under(level int) []string {
	if r.by[level] == nil {
		r.by[level] = make([]string, len(r.lines))
		for i, l := range r.lines {
			r.by[level][i] = leniencies[level](l.text)
		}
	}
	return r.by[level]
}

// find returns the index of want in the file, at or after from, or -1, also if that took too
// long. With atEnd, want has to be the file's last lines.
func (r *reduced) find(want []string, from int, atEnd bool) int {
	last := len(r.lines) - len(want)
	if atEnd {
		from = max(from, last)
	}
	r.compared += len(want)
	if from > last {
		return -1
	}
	for level, reduce := range leniencies {
		if r.compared += len(want) + len(r.lines) - from; r.compared > maxSearched {
			return -1
		}
		have, pattern := r.under(level), make([]string, len(want))
		for i, w := range want {
			pattern[i] = reduce(w)
		}
		if i := index(have[from:], pattern); i >= 0 {
			return from + i
		}
	}
	return -1
}

// index returns the index of pattern in lines, or -1. It is the algorithm of Knuth, Morris
// and Pratt: it compares each line once, even if lines repeat.
func index(lines, pattern []string) int {
	if len(pattern) == 0 {
		return 0
	}
	border := make([]int, len(pattern))
	for i, k := 1, 0; i < len(pattern); i++ {
		for k > 0 && pattern[i] != pattern[k] {
			k = border[k-1]
		}
		if pattern[i] == pattern[k] {
			k++
		}
		border[i] = k
	}
	for i, k := 0, 0; i < len(lines); i++ {
		for k > 0 && lines[i] != pattern[k] {
			k = border[k-1]
		}
		if lines[i] == pattern[k] {
			k++
		}
		if k == len(pattern) {
			return i + 1 - k
		}
	}
	return -1
}
