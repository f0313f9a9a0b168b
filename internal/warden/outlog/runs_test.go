package outlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/corral-exec/corral"
)

// memory is an index that is not on a disk.
type memory struct{ b []byte }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.b = append(m.b, make([]byte, max(0, int(off)+len(p)-len(m.b)))...)
	return copy(m.b[off:], p), nil
}

func (m *memory) Truncate(size int64) error {
	m.b = append(m.b, make([]byte, max(0, int(size)-len(m.b)))...)[:size]
	return nil
}

// changed is an index of n changes, one every step bytes, from standard error at 0 on.
func changed(t *testing.T, n, step int64) (*runs, *memory) {
	t.Helper()
	r, m := newRuns(), &memory{append(indexHeader(indexFormat), make([]byte, indexPiece-runSize)...)}
	for i := range n {
		if err := r.begin(m, i*step, corral.Stream(2-i%2)); err != nil {
			t.Fatal(err)
		}
	}
	return &r, m
}

// An index of any length knows the stream of each byte, or that it does not know,
// and is the same after it was read again.
func TestRuns(t *testing.T) {
	const step = 3
	for _, tt := range []struct{ changes, from, to int64 }{ // from and to: bytes of unknown streams
		{0, 0, 0},
		{1, 0, 0},
		{maxRuns - 1, 0, 0},
		{maxRuns, 0, 0},
		{maxRuns + 1, 0, 0},
		{2*maxRuns - 1, 0, 0},
		{2 * maxRuns, 0, 0},
		{2*maxRuns + 1, (maxRuns - 1) * step, (maxRuns + 1) * step},
		{2*maxRuns + 2, (maxRuns - 1) * step, (maxRuns + 2) * step},
		{3 * maxRuns, (maxRuns - 1) * step, 2 * maxRuns * step},
		{3*maxRuns + 1, (maxRuns - 1) * step, (2*maxRuns + 1) * step},
		{5*maxRuns + 7, (maxRuns - 1) * step, (4*maxRuns + 7) * step},
	} {
		t.Run(fmt.Sprint(tt.changes), func(t *testing.T) {
			made, m := changed(t, tt.changes, step)
			// The header, the changes, and a word of zero, in whole pieces.
			words := min(tt.changes, 2*maxRuns) + 2
			if want := (words*runSize + indexPiece - 1) / indexPiece * indexPiece; int64(len(m.b)) != want {
				t.Errorf("the index has %d bytes, want %d", len(m.b), want)
			}
			loaded := newRuns()
			if err := loaded.load(bytes.NewReader(m.b)); err != nil {
				t.Fatal(err)
			}
			// What is added after that goes to the same places.
			end := tt.changes * step
			for _, r := range []*runs{made, &loaded} {
				if from, to := r.headEnd(), r.tailStart(); tt.to > 0 && (from != tt.from || to != tt.to) || tt.to == 0 && (from != math.MaxInt64 || to != 0) {
					t.Errorf("unknown are %d to %d, want %d to %d", from, to, tt.from, tt.to)
				}
				for off := range end {
					if tt.from <= off && off < tt.to {
						continue
					}
					change := off / step
					stream, until := r.at(off)
					want := (change + 1) * step
					if change == tt.changes-1 {
						want = math.MaxInt64
					}
					if stream != corral.Stream(2-change%2) || until != want {
						t.Fatalf("byte %d is of %v until %d, want until %d", off, stream, until, want)
					}
				}
				if want := corral.Stream(1 + tt.changes%2); r.current() != want {
					t.Errorf("the next byte is of %v, want %v", r.current(), want)
				}
				if err := r.begin(m, end, corral.Stderr); err != nil {
					t.Fatal(err)
				}
			}
			if (made.made-loaded.made)%maxRuns != 0 || made.made >= 2*maxRuns != (loaded.made >= 2*maxRuns) {
				t.Errorf("the next goes where change %d goes, and after loading where %d does", made.made, loaded.made)
			}
		})
	}
}

// What the gap has swallowed takes no memory, and all else is still known.
func TestTrim(t *testing.T) {
	for _, tt := range []struct{ head, tailStart, left int64 }{
		{10, 5, 10}, // no gap
		{maxRuns + 7, maxRuns + 7, 10},
		{10, maxRuns - 1, 10},
		{10, maxRuns, 10},
		{10, maxRuns + 1, 9},
		{10, maxRuns + 8, 2},
		{10, maxRuns + 9, 1},
		{10, maxRuns + 100, 1},
	} {
		r, _ := changed(t, maxRuns+10, 1)
		r.trim(tt.head, tt.tailStart)
		if got := int64(len(r.tail)); got != tt.left {
			t.Errorf("head to %d, tail from %d: %d changes left, want %d", tt.head, tt.tailStart, got, tt.left)
		}
		for off := max(tt.tailStart, 0); off < maxRuns+10; off++ {
			if stream, _ := r.at(off); stream != corral.Stream(2-off%2) {
				t.Errorf("head to %d, tail from %d: byte %d is of %v", tt.head, tt.tailStart, off, stream)
			}
		}
	}
}

// Of two changes at one byte the later one counts: no byte came in between.
func TestChangesAtOneByte(t *testing.T) {
	r, m := newRuns(), &memory{append(indexHeader(indexFormat), make([]byte, indexPiece-runSize)...)}
	for _, s := range []corral.Stream{corral.Stderr, corral.Stdout} {
		if err := r.begin(m, 5, s); err != nil {
			t.Fatal(err)
		}
	}
	loaded := newRuns()
	if err := loaded.load(bytes.NewReader(m.b)); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*runs{&r, &loaded} {
		if s, _ := r.at(5); s != corral.Stdout || r.current() != corral.Stdout {
			t.Errorf("%v, then %v", s, r.current())
		}
	}
}

func TestDecodeRun(t *testing.T) {
	old := func(off int64, stream uint64) []byte { // without a checksum
		return binary.BigEndian.AppendUint64(nil, uint64(off)<<offsetAt|stream)
	}
	for _, tt := range []struct {
		name  string
		word  []byte
		want  run
		again bool
		err   error
	}{
		{"new", run{7, corral.Stdout}.encode(false), run{7, corral.Stdout}, false, nil},
		{"again", run{7, corral.Stderr}.encode(true), run{7, corral.Stderr}, true, nil},
		{"the last offset", run{mostOffset, corral.Stderr}.encode(false), run{mostOffset, corral.Stderr}, false, nil},
		{"old", old(7, 1), run{7, corral.Stdout}, false, nil},
		{"old, the last offset", old(mostOffset, 2), run{mostOffset, corral.Stderr}, false, nil},
		{"old, too large", old(mostOffset+1, 2), run{}, false, errWord},
		{"no stream", old(7, 0), run{}, false, errWord},
		{"another stream", old(7, 3), run{}, false, errWord},
	} {
		got, again, err := decodeRun(tt.word)
		if got != tt.want || again != tt.again || !errors.Is(err, tt.err) {
			t.Errorf("%s: %+v, %v, %v", tt.name, got, again, err)
		}
	}
}

// An index that says what no writer wrote is damaged.
func TestLoadDamaged(t *testing.T) {
	word := func(off int64, again bool) []byte { return run{off, corral.Stdout}.encode(again) }
	for name, b := range map[string][]byte{
		"backwards":                  append(word(5, false), word(4, false)...),
		"overwritten before its end": append(word(5, false), word(6, true)...),
	} {
		r := newRuns()
		if err := r.load(bytes.NewReader(b)); !errors.Is(err, errOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRuns()
	if err := r.load(bytes.NewReader(append(word(5, false), 1, 2, 3))); err != nil || len(r.head) != 1 {
		t.Errorf("cut off: %d changes, %v", len(r.head), err)
	}
}

// The same where the index has overwritten older changes.
func TestChangesAtOneByteOfARing(t *testing.T) {
	r, m := changed(t, 2*maxRuns+5, 1)
	const at = 2*maxRuns + 5
	for _, s := range []corral.Stream{corral.Stdout, corral.Stderr} {
		if err := r.begin(m, at, s); err != nil {
			t.Fatal(err)
		}
	}
	loaded := newRuns()
	if err := loaded.load(bytes.NewReader(m.b)); err != nil {
		t.Fatal(err)
	}
	if s, _ := loaded.at(at); s != corral.Stderr || loaded.made%maxRuns != r.made%maxRuns {
		t.Errorf("%v, the next is change %d, not %d", s, loaded.made, r.made)
	}
}

// A log forgets only changes before its tail.
func TestLogTrims(t *testing.T) {
	const changes = maxRuns + 20
	for _, tt := range []struct {
		tail int64
		left int
	}{{changes, 20}, {11, 10}} {
		l := New(testRoot(t), "x", corral.LogLimit{Head: 10, Tail: tt.tail})
		defer l.Abandon()
		if err := l.Append(corral.Stdout, 0, make([]byte, changes)); err != nil {
			t.Fatal(err)
		}
		r, _ := changed(t, changes, 1)
		l.runs = *r
		if err := l.Append(r.current(), changes, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := len(l.runs.tail); got != tt.left {
			t.Errorf("a tail of %d bytes: %d changes left, want %d", tt.tail, got, tt.left)
		}
	}
}
