package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// sized is a message that takes n bytes when encoded.
func sized(t *testing.T, n int) *Message {
	t.Helper()
	m := &Message{Type: Output, Data: make([]byte, n)}
	m.Data = m.Data[:2*n-len(m.Append(nil))]
	if got := len(m.Append(nil)); got != n {
		t.Fatalf("%d bytes, want %d", got, n)
	}
	return m
}

func TestFramesOfAnySize(t *testing.T) {
	var b bytes.Buffer
	f := NewFrames(&b, &b, nopCloser{})
	// Those that grow the buffers, and those that may keep them.
	for _, size := range []int{MaxMessage, 100, 1 << 18, MaxMessage - 1, 10} {
		want := sized(t, size)
		want.Data[len(want.Data)-1] = 'x'
		if err := f.Send(want); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		got, _, err := f.Recv()
		if err != nil || !bytes.Equal(got.Data, want.Data) {
			t.Fatalf("%d bytes: %v, or another message", size, err)
		}
	}
}

// A message that is too large sends nothing, and others can follow.
func TestFramesTooLarge(t *testing.T) {
	var b bytes.Buffer
	f := NewFrames(&b, &b, nopCloser{})
	large := sized(t, MaxMessage+1)
	if err := f.Send(large); !errors.Is(err, ErrMalformed) || b.Len() > 0 {
		t.Errorf("%v, %d bytes sent", err, b.Len())
	}
	if err := f.SendContext(t.Context(), large); !errors.Is(err, ErrMalformed) || b.Len() > 0 {
		t.Errorf("with a context: %v, %d bytes sent", err, b.Len())
	}
	if err := f.Send(&Message{Type: OK, ID: "next"}); err != nil {
		t.Fatal(err)
	}
	if m, _, err := f.Recv(); err != nil || m.ID != "next" {
		t.Errorf("%+v, %v", m, err)
	}
}

// A reader takes a frame as long as the largest message can be, and no longer
// one, whatever is in it.
func TestLongFrames(t *testing.T) {
	for _, tt := range []struct {
		size int // with the delimiter at the end
		want error
	}{
		{maxFrame, nil},
		{maxFrame + 1, ErrMalformed},
		{2 * maxFrame, ErrMalformed},
	} {
		var b bytes.Buffer
		b.Write(append(bytes.Repeat([]byte("a"), tt.size-len(delimiter)), delimiter...))
		if err := NewFrames(nil, &b, nopCloser{}).Send(&Message{Type: OK, ID: "next"}); err != nil {
			t.Fatal(err)
		}
		m, _, err := NewFrames(&b, io.Discard, nopCloser{}).Recv()
		if !errors.Is(err, tt.want) || err == nil && m.ID != "next" {
			t.Errorf("%d bytes: %+v, %v", tt.size, m, err)
		}
	}
}

// What is not a frame costs one that is not Strict nothing but itself.
func TestFramesDropped(t *testing.T) {
	var b bytes.Buffer
	w := NewFrames(nil, &b, nopCloser{})
	for range 3 {
		if err := w.Send(&Message{Type: OK}); err != nil {
			t.Fatal(err)
		}
		b.WriteString("junk" + delimiter)
	}
	f := NewFrames(&b, io.Discard, nopCloser{})
	for i := range 3 {
		if _, _, err := f.Recv(); err != nil || f.Dropped() != i {
			t.Errorf("message %d: %v, %d dropped", i, err, f.Dropped())
		}
	}
	if _, _, err := f.Recv(); err != io.EOF || f.Dropped() != 3 {
		t.Errorf("at the end: %v, %d dropped", err, f.Dropped())
	}
}

// A message that is all stems is as long as a frame can be.
func TestFramesOfStems(t *testing.T) {
	var b bytes.Buffer
	f := NewFrames(&b, &b, nopCloser{})
	m := sized(t, MaxMessage)
	copy(m.Data, bytes.Repeat([]byte(stem), MaxMessage/len(stem)))
	if err := f.Send(m); err != nil {
		t.Fatal(err)
	}
	if size := b.Len() - len(delimiter); size > maxFrame || size < maxFrame-10 {
		t.Errorf("a frame of %d bytes, and at most %d are taken", size, maxFrame)
	}
	if got, _, err := f.Recv(); err != nil || !bytes.Equal(got.Data, m.Data) {
		t.Fatalf("%v, or another message", err)
	}
}

func TestShrink(t *testing.T) {
	const most = keep
	for size, kept := range map[int]bool{0: true, 1: true, most: true, most + 1: false, MaxMessage: false} {
		b := shrink(make([]byte, size), 0)
		if len(b) != 0 || kept != (cap(b) == size) {
			t.Errorf("of %d bytes: %d left, room for %d", size, len(b), cap(b))
		}
	}
}

func TestParseLimit(t *testing.T) {
	for size, want := range map[int]error{MaxMessage: nil, MaxMessage + 1: ErrMalformed} {
		if _, err := Parse(sized(t, size).Append(nil)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}
