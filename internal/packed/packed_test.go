package packed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
)

func text(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = append(b, "=== RUN   TestFrames/"+strconv.Itoa(i*7919)+"\n"...)
	}
	return b[:n]
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

func TestPacked(t *testing.T) {
	var into []byte
	for _, tt := range []struct {
		name string
		data []byte
		most float64 // of the data's size; 0: it is not packed
	}{
		{"nothing", nil, 0},
		{"little", text(Least - 1), 0},
		{"some", text(Least), 0.5},
		{"zeros", make([]byte, 128<<10), 0.01},
		{"text", text(128 << 10), 0.3},
		{"noise", noise(128 << 10), 0},
		{"next to nothing but noise", append(noise(100<<10), make([]byte, 10<<10)...), 0},
		{"noise and zeros", append(noise(64<<10), make([]byte, 64<<10)...), 0.6},
		{"much", text(Most), 0.3},
		{"too much", text(Most + 1), 0},
	} {
		before := []byte("before")
		block, ok := Append(before, tt.data)
		if !ok {
			if tt.most != 0 || string(block) != "before" {
				t.Errorf("%s: not packed: %d bytes", tt.name, len(block))
			}
			continue
		}
		block = bytes.TrimPrefix(block, before)
		if most := int(tt.most * float64(len(tt.data))); len(block) > most {
			t.Errorf("%s: %d bytes become %d, more than %d", tt.name, len(tt.data), len(block), most)
		}
		var err error
		if into, err = Open(into, block, len(tt.data)); err != nil || !bytes.Equal(into, tt.data) {
			t.Errorf("%s: %v, or other data", tt.name, err)
		}
		if _, err := Open(nil, block, len(tt.data)-1); !errors.Is(err, errBlock) {
			t.Errorf("%s: one byte too many: %v", tt.name, err)
		}
	}
}

func TestNoBlock(t *testing.T) {
	block, _ := Append(nil, text(9000))
	_, head := binary.Uvarint(block)
	sized := func(n uint64) []byte { return append(binary.AppendUvarint(nil, n), block[head:]...) }
	for name, b := range map[string][]byte{
		"nothing":         nil,
		"no length":       {0xff},
		"no data":         sized(0),
		"less than it is": sized(8999),
		"more than it is": sized(9001),
		"too little":      sized(Least - 1),
		"enormous":        sized(1 << 62),
		"cut":             block[:40],
		"the length":      block[:head],
		"copy from ahead": append(binary.AppendUvarint(nil, Least), 0x14, 'a', 0xff, 0xff, 0, 0, 0),
	} {
		if data, err := Open(nil, b, Most); !errors.Is(err, errBlock) || data != nil {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

// Whatever the other side says is a block has bounded data, or is none, and nothing is
// written behind the data.
func FuzzOpen(f *testing.F) {
	for _, data := range [][]byte{text(9000), make([]byte, 5000)} {
		b, _ := Append(nil, data)
		f.Add(b)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{5, 0x50, 'h', 'e', 'l', 'l', 'o'})
	clean := bytes.Repeat([]byte{0xa5}, Most)
	f.Fuzz(func(t *testing.T, block []byte) {
		into := bytes.Clone(clean)
		n, _ := binary.Uvarint(block)
		data, err := Open(into[:0], block, Most)
		if err == nil && len(data) != int(n) {
			t.Errorf("%d bytes, not %d", len(data), n)
		}
		if n = min(n, Most); !bytes.Equal(into[n:], clean[n:]) {
			t.Error("something was written behind the data")
		}
	})
}

func Benchmark(b *testing.B) {
	for name, data := range map[string][]byte{"zeros": make([]byte, 128<<10), "text": text(128 << 10), "noise": noise(128 << 10)} {
		block, ok := Append(nil, data)
		b.Run(name+"/append", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				block, _ = Append(block[:0], data)
			}
		})
		if !ok {
			continue
		}
		b.Run(name+"/open", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for into := []byte(nil); b.Loop(); {
				var err error
				if into, err = Open(into, block, Most); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
