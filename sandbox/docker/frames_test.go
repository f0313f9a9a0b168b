package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// frame is one frame of the engine's stream.
func frame(stream byte, data string) string {
	h := [8]byte{stream}
	binary.BigEndian.PutUint32(h[4:], uint32(len(data)))
	return string(h[:]) + data
}

// readFrames reads to the end with a buffer of that size, and returns the
// output with a mark before each change of stream.
func readFrames(r io.Reader, size int) (string, error) {
	f := &frames{r: r}
	buf := make([]byte, size)
	var out strings.Builder
	last := 0
	for {
		n, stream, err := f.Read(buf)
		if n > 0 && stream != last {
			last = stream
			out.WriteString([]string{"<?>", "<1>", "<2>"}[stream])
		}
		out.Write(buf[:n])
		if err != nil {
			return out.String(), err
		}
	}
}

func TestFrames(t *testing.T) {
	for _, test := range []struct {
		name, in, want string
		err            error
	}{
		{"nothing", "", "", io.EOF},
		{"one", frame(1, "out"), "<1>out", io.EOF},
		{"both, in order", frame(1, "a") + frame(2, "b") + frame(1, "c"), "<1>a<2>b<1>c", io.EOF},
		{"empty frames", frame(1, "") + frame(2, "") + frame(2, "x") + frame(1, ""), "<2>x", io.EOF},
		{"cut in a header", frame(1, "a") + "\x01\x00\x00", "<1>a", io.ErrUnexpectedEOF},
		{"cut after a header", frame(1, "abc")[:8], "", io.ErrUnexpectedEOF},
		{"cut in a frame", frame(1, "abc")[:10], "<1>ab", io.ErrUnexpectedEOF},
		{"unknown stream", frame(1, "a") + frame(4, "b"), "<1>a", errFrame},
		{"standard input", frame(0, "b"), "", errFrame},
		{"no header", "OCI runtime exec failed", "", errFrame},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 100} {
				for name, r := range map[string]io.Reader{
					"whole": strings.NewReader(test.in), "bytes": iotest.OneByteReader(strings.NewReader(test.in)),
					"with the error": iotest.DataErrReader(strings.NewReader(test.in)),
				} {
					got, err := readFrames(r, size)
					if got != test.want || !errors.Is(err, test.err) {
						t.Errorf("%s, buffer of %d: %q, %v", name, size, got, err)
					}
				}
			}
		})
	}
}

func TestFramesEngineError(t *testing.T) {
	_, err := readFrames(strings.NewReader(frame(1, "a")+frame(3, "out of inodes")), 10)
	if err == nil || !strings.Contains(err.Error(), "out of inodes") {
		t.Errorf("error %v", err)
	}
	long := frame(3, strings.Repeat("x", 1<<20))
	if _, err := readFrames(strings.NewReader(long), 10); err == nil || len(err.Error()) > 2*maxEngineError {
		t.Error("an error of a megabyte is kept")
	}
}

// An engine can claim any length; what it costs is the caller's buffer.
func TestFramesHoldNothing(t *testing.T) {
	in := []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	f := &frames{r: io.MultiReader(bytes.NewReader(in), strings.NewReader("abc"))}
	buf := make([]byte, 64)
	allocs := testing.AllocsPerRun(1, func() {
		if n, stream, err := f.Read(buf); n != 0 && (n != 3 || stream != 1 || err != nil) {
			t.Errorf("%d bytes of stream %d, %v", n, stream, err)
		}
	})
	if allocs > 2 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestFramesAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in, want strings.Builder
		last := byte(0)
		for range rapid.IntRange(0, 20).Draw(t, "frames") {
			stream := rapid.SampledFrom([]byte{1, 2}).Draw(t, "stream")
			data := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 50, -1).Draw(t, "data")
			in.WriteString(frame(stream, data))
			if data != "" && stream != last {
				last = stream
				want.WriteString([]string{"", "<1>", "<2>"}[stream])
			}
			want.WriteString(data)
		}
		r := iotest.HalfReader(strings.NewReader(in.String()))
		got, err := readFrames(r, rapid.IntRange(1, 60).Draw(t, "buffer"))
		if got != want.String() || err != io.EOF {
			t.Fatalf("%q, %v, not %q", got, err, want.String())
		}
	})
}

// FuzzFrames: whatever comes, Read makes progress or ends, stays within its
// buffer, and a stream is the same however it is read.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(frame(1, "out")+frame(2, "err")), uint8(3))
	f.Add([]byte(frame(3, "gone")), uint8(1))
	f.Add([]byte(frame(1, "")+frame(1, "cut")[:9]), uint8(200))
	f.Add([]byte("OCI runtime exec failed"), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, err := readFrames(bytes.NewReader(in), 1<<10)
		parts, perr := readFrames(iotest.OneByteReader(bytes.NewReader(in)), int(size)+1)
		if whole != parts || err.Error() != perr.Error() {
			t.Fatalf("%q, %v; in parts %q, %v", whole, err, parts, perr)
		}
		if len(whole) > 4*len(in) {
			t.Fatalf("%d bytes of %d", len(whole), len(in))
		}
	})
}
