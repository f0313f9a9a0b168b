package runner

import (
	"fmt"
	"unicode/utf8"

	"github.com/corral-exec/corral/internal/words"
)

// An Excerpt is the beginning and the end of some output. If nothing was left out, Head
// is all of it. The bytes are the command's own; the cut is between characters.
type Excerpt struct {
	Head    string `json:"head"`
	Tail    string `json:"tail,omitempty"`
	Omitted int64  `json:"omitted,omitempty"` // bytes between Head and Tail
}

// String is the output as text, with a line that says how much is missing.
func (e Excerpt) String() string {
	if e.Omitted == 0 {
		return e.Head + e.Tail
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", e.Head, e.Omitted, e.Tail)
}

// Plain is String without terminal control.
func (e Excerpt) Plain() string {
	e.Head, e.Tail = words.StripANSI(e.Head), words.StripANSI(e.Tail)
	return e.String()
}

// excerptBuffer collects an Excerpt in at most 3*max bytes, or slightly more while a
// chunk is added.
type excerptBuffer struct {
	lastBytes
	head []byte
	cut  bool // head is complete: nothing can be appended to it any more
}

// lastBytes are the last bytes of what came after a head and what was omitted.
type lastBytes struct {
	max     int
	tail    []byte // trimmed to max now and then
	omitted int64
}

func (b *lastBytes) add(p []byte) {
	b.tail = append(b.tail, p...)
	if len(b.tail) > 2*b.max {
		b.trim()
	}
}

func (b *lastBytes) trim() {
	if over := len(b.tail) - b.max; over > 0 {
		b.omitted += int64(over)
		b.tail = b.tail[:copy(b.tail, b.tail[over:])]
	}
}

func (b *excerptBuffer) write(p []byte) {
	if !b.cut {
		n := min(len(p), b.max-len(b.head))
		b.head = append(b.head, p[:n]...)
		p = p[n:]
		b.cut = len(b.head) == b.max
	}
	b.add(p)
}

// skip notes that the log lost n bytes here. The bytes after the head are no longer
// next to the following ones, so they are dropped too.
func (b *excerptBuffer) skip(n int64) {
	b.cut = true
	b.omitted += n + int64(len(b.tail))
	b.tail = b.tail[:0]
}

func (b *excerptBuffer) excerpt() Excerpt {
	b.trim()
	if b.omitted == 0 {
		return Excerpt{Head: string(b.head) + string(b.tail)}
	}
	head, tail := b.head[:words.WholeRunes(b.head)], b.tail
	for n := 0; n < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); n++ {
		tail = tail[1:]
	}
	cut := len(b.head) - len(head) + len(b.tail) - len(tail)
	return Excerpt{Head: string(head), Tail: string(tail), Omitted: b.omitted + int64(cut)}
}
