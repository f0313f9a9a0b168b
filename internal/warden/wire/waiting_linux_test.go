package wire

import (
	"bytes"
	"io"
	"testing"
)

// Waiting tells of what has arrived and was not received: of packets at once, of frames
// when they were read together with one before them.
func TestWaiting(t *testing.T) {
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	var stream bytes.Buffer
	x, y := NewFrames(nil, &stream, nil), NewFrames(&stream, io.Discard, nil)
	for _, tt := range []struct {
		name     string
		from, to Conn
		atOnce   bool
	}{{"packets", a, b, true}, {"frames", x, y, false}} {
		check := func(when string, want bool) {
			t.Helper()
			if Waiting(tt.to) != want {
				t.Errorf("%s: %s: waiting is %v", tt.name, when, !want)
			}
		}
		check("nothing was sent", false)
		for range 2 {
			if err := tt.from.Send(&Message{Type: Hello}); err != nil {
				t.Fatal(err)
			}
		}
		check("two were sent", tt.atOnce)
		for _, left := range []bool{true, false} {
			if _, _, err := tt.to.Recv(); err != nil {
				t.Fatal(err)
			}
			check("one more was received", left)
		}
	}
}
