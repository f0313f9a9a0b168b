package keys

import (
	"strings"
	"testing"
)

func TestCursorQueries(t *testing.T) {
	for _, tc := range []struct {
		output, rest string
		requests     int
	}{
		{"", "", 0},
		{"text", "text", 0},
		{"\x1b[6n", "", 1},
		{"hi\x1b[6nthere\x1b[?6n", "hithere", 2},
		{"\x1b\x1b[6n\x1b[\x1b[?6n", "\x1b\x1b[", 2},
		{"\x1b[?66n\x1b[5n\x1b[6;1n\x1b[6m", "\x1b[?66n\x1b[5n\x1b[6;1n\x1b[6m", 0},
		{"\x1b[\x1b[6n6n", "\x1b[6n", 1}, // what is left is not looked at again
		{"end\x1b[?6", "end\x1b[?6", 0},
	} {
		for size := 1; size <= len(tc.output)+1; size++ {
			rest, requests := strip(tc.output, size)
			if rest != tc.rest || requests != tc.requests {
				t.Errorf("%q by %d: %q, %d requests; want %q, %d", tc.output, size, rest, requests, tc.rest, tc.requests)
			}
		}
	}
}

func strip(output string, size int) (string, int) {
	var q CursorQueries
	var all strings.Builder
	sum := 0
	for output != "" {
		n := min(size, len(output))
		rest, requests := q.Strip([]byte(output[:n]))
		all.Write(rest)
		sum += requests
		output = output[n:]
	}
	all.Write(q.Flush())
	return all.String(), sum
}

// What is not sent on at once may yet be a request.
func TestCursorQueriesHoldLittle(t *testing.T) {
	var q CursorQueries
	output := []byte("a\x1b[?6\x1b[?6xb")
	sent := 0
	for i, c := range output {
		rest, _ := q.Strip([]byte{c})
		if sent += len(rest); i+1-sent > 4 {
			t.Fatalf("after %d bytes %d are held back", i+1, i+1-sent)
		}
	}
	if left := q.Flush(); len(left) != 0 || sent != len(output) {
		t.Errorf("%d bytes were sent on, and %q is left", sent, left)
	}
}

func FuzzCursorQueries(f *testing.F) {
	f.Add("hi\x1b[6nthere\x1b[?6n", uint8(2))
	f.Add("\x1b\x1b[6n\x1b[?6", uint8(0))
	f.Fuzz(func(t *testing.T, output string, size uint8) {
		want := strings.Count(output, cursorRequest) + strings.Count(output, cursorRequestPrivate)
		rest, requests := strip(output, int(size)%17+1)
		if requests != want || rest != strings.NewReplacer(cursorRequest, "", cursorRequestPrivate, "").Replace(output) {
			t.Fatalf("%q: %q, %d requests, want %d", output, rest, requests, want)
		}
	})
}
