package pattern

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Any part made by itself is that part of the whole, whatever its alignment.
func TestPartsAreOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		whole := make([]byte, 200)
		Fill(whole, seed, 0)
		from := rapid.IntRange(0, len(whole)).Draw(t, "from")
		to := rapid.IntRange(from, len(whole)).Draw(t, "to")
		part := make([]byte, to-from)
		Fill(part, seed, int64(from))
		if !bytes.Equal(part, whole[from:to]) {
			t.Fatalf("bytes %d to %d differ from those of the whole", from, to)
		}
		if !Equal(part, seed, int64(from)) {
			t.Fatal("Equal denies it")
		}
		if len(part) > 0 {
			part[len(part)/2]++
			if Equal(part, seed, int64(from)) {
				t.Fatal("Equal missed a changed byte")
			}
		}
	})
}

func TestSeedsDiffer(t *testing.T) {
	a, b := make([]byte, 64), make([]byte, 64)
	FillText(a, 1, 0)
	FillText(b, 2, 0)
	if bytes.Equal(a, b) {
		t.Fatal("two seeds make the same text")
	}
	if bytes.ContainsAny(a, "\x00\r\n\t ") {
		t.Fatalf("%q is not plain text", a)
	}
}
