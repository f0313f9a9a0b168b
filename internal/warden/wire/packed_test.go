package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestPacked(t *testing.T) {
	text := bytes.Repeat([]byte("--- PASS: TestPacked (0.00s)\n"), 4000)
	for name, on := range map[string]bool{"packed": true, "not packed": false} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			f := NewFrames(&b, &b, nopCloser{})
			f.Strict = true
			f.Pack(on)
			for _, data := range [][]byte{text, nil, text[:100], text[:50_000]} { // in the same buffers
				m := &Message{Type: Output, ID: "a", Offset: 7, Data: data}
				if err := f.Send(m); err != nil {
					t.Fatal(err)
				}
				if size := b.Len(); len(data) > 1000 && (size < len(data)/10) != on {
					t.Errorf("%d bytes are %d on the wire", len(data), size)
				}
				got, _, err := f.Recv()
				if err != nil || !bytes.Equal(got.Data, data) || got.Packed != nil || got.ID != m.ID || got.Offset != m.Offset {
					t.Fatalf("%v, or another message", err)
				}
				if m.Packed != nil || len(m.Data) != len(data) {
					t.Fatal("the sender's message was changed")
				}
			}
		})
	}
}

// What cannot be unpacked is no message.
func TestPackedBadly(t *testing.T) {
	var b bytes.Buffer
	w := NewFrames(nil, &b, nopCloser{})
	for _, m := range []*Message{{Type: OK, ID: "before"}, {Type: Output, Packed: []byte("what is no block")}, {Type: OK, ID: "after"}} {
		if err := w.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	strict := NewFrames(bytes.NewReader(b.Bytes()), io.Discard, nopCloser{})
	strict.Strict = true
	_, _, first := strict.Recv()
	if _, _, err := strict.Recv(); first != nil || !errors.Is(err, ErrMalformed) {
		t.Errorf("%v, %v", first, err)
	}
	f := NewFrames(&b, io.Discard, nopCloser{})
	for _, want := range []string{"before", "after"} {
		if m, _, err := f.Recv(); err != nil || m.ID != want {
			t.Errorf("%+v, %v, not the message %s", m, err, want)
		}
	}
	if f.Dropped() != 1 {
		t.Errorf("%d dropped", f.Dropped())
	}
}
