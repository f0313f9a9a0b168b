package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
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
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(b) // never fails
	return b
}

func TestPacked(t *testing.T) {
	for _, tt := range []struct {
		name string
		data []byte
		off  bool
		most float64 // of the data's size, on the wire
	}{
		{"nothing", nil, false, 1},
		{"little", text(minPacked - 1), false, 1},
		{"some", text(minPacked), false, 0.5},
		{"zeros", make([]byte, 128<<10), false, 0.05},
		{"text", text(128 << 10), false, 0.3},
		{"noise", noise(128 << 10), false, 1},
		{"much", text(maxPacked), false, 0.3},
		{"too much", text(maxPacked + 1), false, 1},
		{"not wanted", text(128 << 10), true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			f := NewFrames(&b, &b, nopCloser{})
			f.Strict = true
			f.Pack(!tt.off)
			m := &Message{Type: Output, ID: "a", Offset: 7, Data: tt.data}
			for range 2 { // the second time in the same buffers
				if err := f.Send(m); err != nil {
					t.Fatal(err)
				}
				size := b.Len()
				if most := int(tt.most*float64(len(tt.data))) + 64; size > most {
					t.Errorf("%d bytes are %d on the wire, more than %d", len(tt.data), size, most)
				}
				if tt.most == 1 && size < len(tt.data) {
					t.Errorf("%d bytes are %d on the wire", len(tt.data), size)
				}
				got, _, err := f.Recv()
				if err != nil || !bytes.Equal(got.Data, tt.data) || got.Packed != nil || got.ID != m.ID || got.Offset != m.Offset {
					t.Fatalf("%v, or another message", err)
				}
				if m.Packed != nil || len(m.Data) != len(tt.data) {
					t.Fatal("the sender's message was changed")
				}
			}
		})
	}
}

// What cannot be unpacked, or would be larger than anything that is packed, is no message.
func TestPackedBadly(t *testing.T) {
	block := func(data []byte) []byte {
		var b bytes.Buffer
		f := NewFrames(nil, &b, nopCloser{})
		f.Pack(true)
		return f.pack(&Message{Data: data}).Packed
	}
	text := block(text(9000))
	_, head := binary.Uvarint(text)
	sized := func(n uint64) []byte { return append(binary.AppendUvarint(nil, n), text[head:]...) }
	for name, packed := range map[string][]byte{
		"no length":       {0xff},
		"less than it is": sized(8999),
		"more than it is": sized(9001),
		"nothing":         sized(0),
		"cut":             text[:40],
		"too large":       sized(maxPacked + 1),
		"enormous":        sized(1 << 62),
		"copy from ahead": {8, 0x14, 'a', 0xff, 0xff, 0, 0, 0},
	} {
		var b bytes.Buffer
		w := NewFrames(nil, &b, nopCloser{})
		for _, m := range []*Message{{Type: OK, ID: "before"}, {Type: Output, Packed: packed}, {Type: OK, ID: "after"}} {
			if err := w.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		strict := NewFrames(bytes.NewReader(b.Bytes()), io.Discard, nopCloser{})
		strict.Strict = true
		_, _, first := strict.Recv()
		if _, _, err := strict.Recv(); first != nil || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", name, first, err)
		}
		f := NewFrames(&b, io.Discard, nopCloser{})
		for _, want := range []string{"before", "after"} {
			if m, _, err := f.Recv(); err != nil || m.ID != want {
				t.Errorf("%s: %+v, %v, not the message %s", name, m, err, want)
			}
		}
		if f.Dropped() != 1 {
			t.Errorf("%s: %d dropped", name, f.Dropped())
		}
	}
}

// Whatever a warden says is packed becomes a message that is not large, or none, and nothing
// is written behind it.
func FuzzPacked(f *testing.F) {
	for _, data := range [][]byte{text(9000), make([]byte, 5000)} {
		w := NewFrames(nil, nil, nil)
		w.Pack(true)
		f.Add(w.pack(&Message{Data: data}).Packed)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{5, 0x50, 'h', 'e', 'l', 'l', 'o'})
	f.Fuzz(func(t *testing.T, packed []byte) {
		if len(packed) == 0 || len(packed) > maxPacked {
			return
		}
		var b bytes.Buffer
		r := NewFrames(&b, &b, nopCloser{})
		r.Strict = true
		for _, m := range []*Message{{Type: OK}, {Type: Output, Packed: packed}} {
			if err := r.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := r.Recv(); err != nil {
			t.Fatal(err)
		}
		clean := bytes.Repeat([]byte{0xa5}, maxPacked)
		r.data = bytes.Clone(clean)[:0]
		defer func() {
			if n := len(r.data); !bytes.Equal(r.data[n:maxPacked], clean[n:]) {
				t.Error("something was written behind the data")
			}
		}()
		switch m, _, err := r.Recv(); {
		case errors.Is(err, ErrMalformed):
		case err != nil || len(m.Data) > maxPacked:
			t.Fatalf("%v, %d bytes", err, len(m.Data))
		}
	})
}

func BenchmarkPacked(b *testing.B) {
	for name, data := range map[string][]byte{"zeros": make([]byte, 128<<10), "text": text(128 << 10), "noise": noise(128 << 10)} {
		b.Run(name, func(b *testing.B) {
			var stream bytes.Buffer
			f := NewFrames(&stream, &stream, nopCloser{})
			f.Pack(true)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := f.Send(&Message{Type: Output, Data: data}); err != nil {
					b.Fatal(err)
				}
				if _, _, err := f.Recv(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
