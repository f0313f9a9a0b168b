package nodeexec

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
)

func testStream(window int64) *stream {
	f := &Fabric{pool: poolBytes}
	p := &process{link: link{f: f}, known: make(chan struct{})}
	p.log.p = p
	return &stream{log: &p.log, ready: make(chan struct{}, 1), window: window, limit: window, granted: 1 << 62, asked: true}
}

// A node that sends more than it was granted, in large or in tiny pieces, fills
// nothing but the window.
func TestStreamIsBounded(t *testing.T) {
	for _, size := range []int{fabric.MaxData, 1} {
		s := testStream(firstWindow)
		streams := [2]corral.Stream{corral.Stdout, corral.Stderr} // so that pieces cannot be joined
		off := int64(0)
		for i := range 200_000 {
			err := s.receive(fabric.Output{From: off, Offset: off, Stream: streams[i%2], Data: make([]byte, size)})
			if err != nil {
				t.Fatal(err)
			}
			off += int64(size)
		}
		if s.held > firstWindow+fabric.MaxData || len(s.queue) > mostQueued {
			t.Errorf("pieces of %d: %d bytes in %d pieces are held", size, s.held, len(s.queue))
		}
		if !s.lost {
			t.Errorf("pieces of %d: what was dropped is not asked for again", size)
		}
	}
}

// Streams share the memory, and return it.
func TestPool(t *testing.T) {
	f := &Fabric{pool: poolBytes}
	total := int64(0)
	for range 1000 {
		total += f.lend(firstWindow)
	}
	if total != poolBytes || f.pool != 0 {
		t.Errorf("%d bytes were lent, and %d are left", total, f.pool)
	}
	f.giveBack(total)
	if got := f.lend(2 * poolBytes); got != poolBytes {
		t.Errorf("%d bytes were lent", got)
	}
}

// However pieces of a log arrive, what is read is the log, in order, with its
// gap, and once; and what is missing is asked for.
func TestStreamReadsTheLog(t *testing.T) {
	const size = 20_000
	data := make([]byte, size)
	pattern.Fill(data, 1, 0)
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.Int64Range(0, size/2).Draw(t, "gap")
		after := gap + rapid.Int64Range(0, size/2).Draw(t, "length of the gap")
		// piece is what an honest node sends from an offset on.
		piece := func(from, most int64) fabric.Output {
			off := from
			if off >= gap && off < after {
				off = after
			}
			end := min(off+most, size)
			if off < gap {
				end = min(end, gap)
			}
			if off >= size {
				return fabric.Output{From: from, Offset: from, Flags: fabric.FlagEnd}
			}
			return fabric.Output{From: from, Offset: off, Stream: corral.Stdout, Data: bytes.Clone(data[off:end])}
		}
		s := testStream(size)
		var got []byte
		at, buf := int64(0), make([]byte, 3000)
		read := func() error {
			for {
				c, _, err := s.next(buf)
				if err != nil || len(c.Data) == 0 {
					return err
				}
				if c.Offset != at && (at < gap || c.Offset != after) {
					t.Fatalf("at %d: a chunk at %d", at, c.Offset)
				}
				got, at = append(got, c.Data...), c.Next()
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "pieces") {
			from := s.expected
			if rapid.Bool().Draw(t, "astray") {
				from = rapid.Int64Range(0, size).Draw(t, "from")
			}
			before := s.expected
			if err := s.receive(piece(from, rapid.Int64Range(1, 3000).Draw(t, "most"))); err != nil {
				t.Fatal(err)
			}
			if from > before && !s.lost && s.err == nil {
				t.Fatalf("from %d, expecting %d: nothing is missed", from, before)
			}
			if rapid.Bool().Draw(t, "read") {
				if err := read(); err != nil {
					break
				}
			}
		}
		for s.err == nil {
			if err := s.receive(piece(s.expected, 3000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := read(); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
		if want := append(bytes.Clone(data[:gap]), data[after:]...); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes were read, and not %d", len(got), len(want))
		}
	})
}

// A node that repeats almost all of what it has sent, with each piece, fills no more
// memory than the window.
func TestStreamKeepsNoRepetition(t *testing.T) {
	const news = 4 << 10
	s := testStream(mostWindow)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for off := int64(0); s.held < mostWindow && !s.lost; off += news {
		err := s.receive(fabric.Output{From: off, Offset: off, Stream: corral.Stdout, Data: make([]byte, fabric.MaxData)})
		if err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&now)
	if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 2*mostWindow {
		t.Errorf("%d bytes are held in %d", s.held, grown)
	}
	runtime.KeepAlive(s)
}
