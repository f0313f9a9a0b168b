package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestHeld adds and drops in sizes around those of a piece, and compares what is held with
// a plain buffer.
func TestHeld(t *testing.T) {
	const begin = 1 << 40
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 17, 4096, pieceSize/2 - 1, pieceSize / 2, pieceSize - 1, pieceSize, pieceSize + 1, 3*pieceSize + 5}
	h, want, start := HeldFrom(begin), []byte(nil), int64(begin)
	next := byte(0)
	for range 2000 {
		if n := sizes[random.IntN(len(sizes))]; random.IntN(2) == 0 && len(want) < 8*pieceSize {
			b := make([]byte, n)
			for i := range b {
				b[i] = next
				next = next*7 + 3
			}
			h.Add(b)
			want = append(want, b...)
			clear(b)
		} else {
			off := start + int64(n)
			h.Drop(off)
			dropped := min(n, len(want))
			want, start = want[dropped:], start+int64(dropped)
		}
		if h.Start() != start || h.End() != start+int64(len(want)) || h.Len() != len(want) {
			t.Fatalf("[%d, %d), %d bytes, want [%d, %d)", h.Start(), h.End(), h.Len(), start, start+int64(len(want)))
		}
		got := []byte(nil)
		for off := start; off < h.End(); {
			part := h.From(off)
			if len(part) == 0 || len(part) > pieceSize {
				t.Fatalf("%d bytes from %d of [%d, %d)", len(part), off, h.Start(), h.End())
			}
			got, off = append(got, part...), off+int64(len(part))
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("what is held differs, at [%d, %d)", h.Start(), h.End())
		}
		if at := start + int64(len(want)/3); len(want) > 0 && h.From(at)[0] != want[len(want)/3] {
			t.Fatalf("From(%d) begins elsewhere", at)
		}
		if h.From(h.End()) != nil {
			t.Fatal("there is something after the end")
		}
		h.Drop(start - 1) // nothing
	}
}

// TestHeldMemory wants a steady flow not to take memory again and again, and little to take
// little.
func TestHeldMemory(t *testing.T) {
	var h Held
	b := make([]byte, 4*pieceSize)
	flow := func() {
		h.Add(b)
		h.Drop(h.End())
	}
	flow()
	if n := testing.AllocsPerRun(100, flow); n > 4 { // the list of pieces
		t.Errorf("%v allocations for each %d bytes", n, len(b))
	}
	h.Add([]byte("a"))
	h.Add([]byte("b"))
	size := 0
	for _, p := range append(h.pieces, h.free...) {
		size += cap(p)
	}
	if size > 64 {
		t.Errorf("%d bytes of memory for 2 held", size)
	}
}
