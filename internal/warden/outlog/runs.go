package outlog

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sort"

	"github.com/corral-exec/corral"
)

// runs tells which stream each byte is of. It is bounded, as the log is: a
// process that changes streams at every byte would otherwise have an index
// larger than its output. When the part for the head is full the head ends
// there, and when that for the tail is full the tail begins later; both widen
// the gap, so no byte is ever ascribed to the wrong stream.
type runs struct {
	head []run // the first maxRuns changes
	tail []run // the last maxRuns changes after those, oldest first
	made int64 // changes so far
	full int64 // where the head ended because it was full; MaxInt64 if it did not
	lost int64 // where the tail begins because it was full; 0 if it was not

	// Of the index: how many bytes are before the words, and how many it has. Both
	// are 0 of one without a header, by an earlier version.
	before, size int64
}

type run struct {
	off    int64
	stream corral.Stream
}

// maxRuns bounds each part; a run is 8 bytes on disk and 16 in memory.
const maxRuns = 1 << 15

const runSize = 8

func newRuns() runs { return runs{full: math.MaxInt64, before: runSize, size: indexPiece} }

// A run's word has, from its lowest bit: the stream in 2, whether it takes the place of
// an older one, the offset in 44, a checksum in 16, and whether it has one. Earlier
// versions wrote none, and offsets that never were so large.
const (
	bitAgain   = 1 << 2
	offsetAt   = 3
	sumAt      = 47
	bitSum     = 1 << 63
	mostOffset = 1<<(sumAt-offsetAt) - 1
)

// encode packs a run into a word, which is written as a whole or not at all,
// and whether the word takes the place of an older one.
func (r run) encode(again bool) []byte {
	v := uint64(r.off)<<offsetAt&(1<<sumAt-1) | uint64(r.stream)
	if again {
		v |= bitAgain
	}
	return binary.BigEndian.AppendUint64(nil, v|sumOf(v)<<sumAt|bitSum)
}

// sumOf is the checksum of a word without its checksum.
func sumOf(v uint64) uint64 {
	return uint64(checksum(binary.BigEndian.AppendUint64(nil, v)) & 0xffff)
}

func decodeRun(b []byte) (r run, again bool, err error) {
	v := binary.BigEndian.Uint64(b)
	if v&bitSum != 0 {
		word := v & (1<<sumAt - 1)
		if v&^bitSum>>sumAt != sumOf(word) {
			return run{}, false, errWord
		}
		v = word
	}
	r = run{off: int64(v >> offsetAt), stream: corral.Stream(v & 3)}
	if r.off > mostOffset || r.stream != corral.Stdout && r.stream != corral.Stderr {
		return run{}, false, errWord
	}
	return r, v&bitAgain != 0, nil
}

// current is the stream of the next byte. Output begins as standard output.
func (r *runs) current() corral.Stream {
	switch {
	case len(r.tail) > 0:
		return r.tail[len(r.tail)-1].stream
	case len(r.head) > 0:
		return r.head[len(r.head)-1].stream
	}
	return corral.Stdout
}

// last is where the last change is; 0 if there is none.
func (r *runs) last() int64 {
	switch {
	case len(r.tail) > 0:
		return r.tail[len(r.tail)-1].off
	case len(r.head) > 0:
		return r.head[len(r.head)-1].off
	}
	return 0
}

// An indexFile is what begin writes to.
type indexFile interface {
	io.WriterAt
	Truncate(size int64) error
}

// begin records, on disk first, that bytes from off on are of stream.
func (r *runs) begin(index indexFile, off int64, stream corral.Stream) error {
	n := run{off, stream}
	slot := r.made
	if slot >= maxRuns {
		slot = maxRuns + slot%maxRuns
	}
	at := r.before + slot*runSize
	if r.before > 0 && at+2*runSize > r.size { // a word of zero has to be after it
		if err := index.Truncate(r.size + indexPiece); err != nil {
			return err
		}
		r.size += indexPiece
	}
	if _, err := index.WriteAt(n.encode(r.made >= 2*maxRuns), at); err != nil {
		return err
	}
	r.add(n)
	return nil
}

func (r *runs) add(n run) {
	r.made++
	if r.made <= maxRuns {
		r.head = append(r.head, n)
		return
	}
	r.tail = append(r.tail, n)
	if over := len(r.tail) - maxRuns; over > 0 {
		r.tail = r.tail[over:] // append copies what is left when it grows
		r.lose(r.tail[0].off)
	}
}

// lose says that changes between the two parts are no longer known, up to the
// one at off. Where the head's last run ended is one of them.
func (r *runs) lose(off int64) {
	r.full, r.lost = r.head[maxRuns-1].off, off
}

// trim forgets changes in the gap: those after the head whose next one is not after
// tailStart either.
func (r *runs) trim(headEnd, tailStart int64) {
	if tailStart <= headEnd {
		return
	}
	n := sort.Search(len(r.tail), func(i int) bool { return r.tail[i].off > tailStart })
	r.tail = r.tail[max(n, 1)-1:]
}

func (r *runs) headEnd() int64   { return r.full }
func (r *runs) tailStart() int64 { return r.lost }

// at is the stream of byte off, and the offset at which its run ends.
func (r *runs) at(off int64) (corral.Stream, int64) {
	stream, end := corral.Stdout, int64(math.MaxInt64)
	for _, list := range [][]run{r.head, r.tail} {
		n := sort.Search(len(list), func(i int) bool { return list[i].off > off })
		if n > 0 {
			stream = list[n-1].stream
		}
		if n < len(list) {
			return stream, list[n].off
		}
	}
	return stream, end
}

var (
	errWord  = errors.New("a word of it is not as it was written")
	errOrder = errors.New("its words do not follow each other")
)

// load reads what begin wrote. A change that was cut off at the end, by a kill of an
// earlier version, speaks of no byte and is left out.
func (r *runs) load(index io.ReaderAt) error {
	const most = runSize + 2*maxRuns*runSize + indexPiece
	b, err := io.ReadAll(io.NewSectionReader(index, 0, most+1))
	if err != nil {
		return err
	}
	size := int64(len(b))
	if size > most {
		return errors.New("it is too long")
	}
	b, header, err := words(b)
	if err != nil {
		return err
	}
	if r.size = size; !header {
		r.before, r.size = 0, 0
	}
	var all []run
	turned := false
	for ; len(b) >= runSize; b = b[runSize:] {
		n, again, err := decodeRun(b)
		if err != nil {
			return err
		}
		turned = turned || again
		all = append(all, n)
	}
	if turned && len(all) != 2*maxRuns || len(all) > 2*maxRuns {
		return errOrder
	}
	// The tail is a ring: it begins where offsets fall back.
	start := 0
	if turned {
		ring := all[maxRuns:]
		for start = 1; start < len(ring) && ring[start].off >= ring[start-1].off; start++ {
		}
		start %= len(ring)
		all = append(all[:maxRuns:maxRuns], append(ring[start:len(ring):len(ring)], ring[:start]...)...)
	}
	for i, n := range all {
		if i > 0 && n.off < all[i-1].off {
			return errOrder
		}
		r.add(n)
	}
	if turned {
		r.made = 2*maxRuns + int64(start)
		r.lose(r.tail[0].off)
	}
	return nil
}
