package api

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/corral-exec/corral"
)

func frame(stream corral.Stream, offset int64, data string) []byte {
	buf := make([]byte, HeaderLen, HeaderLen+len(data))
	Header{Stream: stream, Offset: offset, Length: len(data)}.Put(buf)
	return append(buf, data...)
}

func TestFrames(t *testing.T) {
	wire := slices.Concat(frame(corral.Stdout, 0, "hello"), frame(corral.Stderr, 5, "oh"), frame(corral.Stdout, 1000, "after a gap"), frame(StreamEnd, 1011, ""))
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(wire), "in bytes": iotest.OneByteReader(bytes.NewReader(wire)), "with its end": iotest.DataErrReader(bytes.NewReader(wire)),
	} {
		f := NewFrameReader(r)
		text, next := map[corral.Stream]string{}, int64(0)
		for {
			c, err := f.Chunk(make([]byte, 3))
			if errors.Is(err, io.EOF) {
				if c.Offset != 1011 {
					t.Errorf("%s: the end is at %d", name, c.Offset)
				}
				break
			}
			if err != nil || c.Offset != next && c.Offset != 1000 {
				t.Fatalf("%s: %+v, %v", name, c, err)
			}
			text[c.Stream] += string(c.Data)
			next = c.Next()
		}
		if text[corral.Stdout] != "helloafter a gap" || text[corral.Stderr] != "oh" {
			t.Errorf("%s: %q", name, text)
		}
		if !f.AtEnd() {
			t.Errorf("%s: there is more", name)
		}
	}
}

// Whatever is missing at the end, it is a cut and no end.
func TestCutFrames(t *testing.T) {
	wire := slices.Concat(frame(corral.Stdout, 0, "hello"), frame(StreamEnd, 5, ""))
	for n := range len(wire) {
		f := NewFrameReader(bytes.NewReader(wire[:n]))
		var err error
		for err == nil {
			_, err = f.Chunk(make([]byte, 100))
		}
		if err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes of %d: %v", n, len(wire), err)
		}
	}
	f := NewFrameReader(bytes.NewReader(wire))
	if _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	if h, err := f.Next(); err != nil || h.Stream != StreamEnd {
		t.Errorf("the frame after one that was not read: %+v, %v", h, err)
	}
}

func TestMalformedFrames(t *testing.T) {
	for name, h := range map[string]Header{
		"stream 3":           {3, 0, 1},
		"a negative offset":  {corral.Stdout, -1, 1},
		"too long":           {corral.Stdout, 0, MaxFrame + 1},
		"empty":              {corral.Stdout, 0, 0},
		"an end with bytes":  {StreamEnd, 0, 1},
		"a pause with bytes": {StreamPause, 0, 1},
	} {
		buf := make([]byte, HeaderLen)
		h.Put(buf)
		if got, err := ParseHeader(buf); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := ParseHeader(make([]byte, HeaderLen-1)); !errors.Is(err, ErrFrame) {
		t.Errorf("a short one: %v", err)
	}
}

// FuzzFrames reads what a gateway, or something else, may send. What is
// understood is what it would be if it were written again.
func FuzzFrames(f *testing.F) {
	f.Add(slices.Concat(frame(corral.Stdout, 0, "hello"), frame(corral.Stderr, 5, "oh"), frame(StreamEnd, 7, "")), 3)
	f.Add(slices.Concat(frame(corral.Stdout, 1<<40, "x"), frame(StreamPause, 1<<40+1, "")), 100)
	f.Add(frame(3, -1, "x"), 1)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, wire []byte, size int) {
		if size < 1 || size > 1<<16 {
			return
		}
		r, buf := NewFrameReader(bytes.NewReader(wire)), make([]byte, size)
		var again []byte
		var open Header // the frame that is being put together
		var data []byte
		closeFrame := func() {
			if len(data) > 0 {
				again = append(again, frame(open.Stream, open.Offset, string(data))...)
				data = nil
			}
		}
		for {
			c, err := r.Chunk(buf)
			if err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, ErrPause) {
					closeFrame()
					last := StreamEnd
					if errors.Is(err, ErrPause) {
						last = StreamPause
					}
					again = append(again, frame(last, c.Offset, "")...)
					if !bytes.HasPrefix(wire, again) {
						t.Fatalf("%x was understood as %x", wire, again)
					}
				}
				return
			}
			if len(c.Data) == 0 || len(c.Data) > size || c.Offset < 0 || c.Next() < c.Offset {
				t.Fatalf("chunk %+v", c)
			}
			if len(data) == 0 {
				open = Header{Stream: c.Stream, Offset: c.Offset}
			}
			data = append(data, c.Data...)
			if r.Rest() == 0 {
				closeFrame()
			}
		}
	})
}
