package keys

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDetector(t *testing.T) {
	for _, tc := range []struct {
		output string
		cursor CursorMode
		paste  bool
	}{
		{"", CursorUnknown, false},
		{"plain text [?1h", CursorUnknown, false},
		{"\x1b[?1h", CursorApplication, false},
		{"\x1b[?1l", CursorNormal, false},
		{"\x1b[?01h", CursorApplication, false},
		{"\x1b[?1h\x1b=", CursorApplication, false},
		{"\x1b[?2004h", CursorUnknown, true},
		{"\x1b[?2004h\x1b[?2004l", CursorUnknown, false},
		{"\x1b[?1;2004h", CursorApplication, true},
		{"\x1b[?2004;25;1h", CursorApplication, true},
		{"\x1b[?1049;;1h", CursorApplication, false},
		{"\x1b[?1;2004h\x1b[?1l", CursorNormal, true},
		{"\x1b[?1;2004h\x1bc", CursorNormal, false},
		{"\x1b[?1;2004h\x1b[!p", CursorNormal, true},
		{"\x1b[?\r1\nh", CursorApplication, false}, // controls are obeyed on the way
		{"\x1b[?1\x1b[?1h", CursorApplication, false},
		{"\x1b]0;title\x07\x1b[?1h", CursorApplication, false},
		{"\x1b]0;title\x1b\\\x1b[?1h", CursorApplication, false},

		{"\x1b[?\x7f1h", CursorApplication, false},
		{"\x1b[?1hl", CursorApplication, false},  // the sequence has ended
		{"\x1b[?1:2;2004h", CursorUnknown, true}, // a parameter of parts is another one
		{"\x1b[?1:;2004h", CursorUnknown, true},
		{"\x1b[?1\x80h\x1b[?2004h", CursorUnknown, true},
		{"\x1b(\x1bc", CursorNormal, false},

		{"\x1b[!q", CursorUnknown, false},
		{"\x1b\xe9c", CursorUnknown, false},
		{"\x1b[?1\x80h", CursorUnknown, false},
		{"\x1b[1h", CursorUnknown, false},
		{"\x1b[>1h", CursorUnknown, false},
		{"\x1b[1?h", CursorUnknown, false},
		{"\x1b[??1h", CursorUnknown, false},
		{"\x1b[?1$p", CursorUnknown, false},
		{"\x1b[?1 h", CursorUnknown, false},
		{"\x1b[?1s", CursorUnknown, false},
		{"\x1b[?11h", CursorUnknown, false},
		{"\x1b[?1:2h", CursorUnknown, false},
		{"\x1b[?20041h", CursorUnknown, false},
		{"\x1b[?18446744073709551617h", CursorUnknown, false}, // 1 + 2^64
		{"\x1b[?1\x18h", CursorUnknown, false},
		{"\x1b[?1\x1ah", CursorUnknown, false},
		{"\x1b[?1éh", CursorUnknown, false},
		{"\x1b(c", CursorUnknown, false},
		{"\x1b([?1h", CursorUnknown, false},
		{"\x1b]c", CursorUnknown, false},
		{"\x1b[p", CursorUnknown, false},
		{"\x1b[?!p", CursorUnknown, false},
		{"\x9b?1h", CursorUnknown, false},
	} {
		for size := 1; size <= len(tc.output)+1; size++ {
			d := detect(tc.output, func(int) int { return size })
			if d.Cursor() != tc.cursor || d.BracketedPaste() != tc.paste {
				t.Errorf("%q by %d: %v cursor, paste %v; want %v, %v", tc.output, size, d.Cursor(), d.BracketedPaste(), tc.cursor, tc.paste)
			}
		}
	}
}

// detect writes output in pieces; size is asked for each, with what is left.
func detect(output string, size func(left int) int) *Detector {
	var d Detector
	for output != "" {
		n := min(size(len(output)), len(output))
		if got, err := d.Write([]byte(output[:n])); got != n || err != nil {
			panic(fmt.Sprintf("Write of %d bytes: %d, %v", n, got, err))
		}
		output = output[n:]
	}
	return &d
}

// The last sequence that speaks of a mode decides, whatever is around it.
func TestDetectorFollows(t *testing.T) {
	noise := []string{"text\r\n", "é", "\x1b[31m", "\x1b[?25h", "\x1b[2J", "\x1b]0;c[?1h\x07", "\x1bP+q544e\x1b\\", "\x1b(B", "\x1b[?1049l", "\x1b[6n", "\x1b[?1", "\x1b"}
	rapid.Check(t, func(t *rapid.T) {
		cursor, paste := CursorUnknown, false
		var output strings.Builder
		for range rapid.IntRange(0, 20).Draw(t, "sequences") {
			if rapid.Bool().Draw(t, "noise") {
				output.WriteString(rapid.SampledFrom(noise).Draw(t, "bytes"))
			}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				output.WriteString("\x1bc")
				cursor, paste = CursorNormal, false
			case 1:
				output.WriteString("\x1b[!p")
				cursor = CursorNormal
			default:
				on := rapid.Bool().Draw(t, "on")
				modes := rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2004", "25", "7", "", "001", "12"}), 1, 5).Draw(t, "modes")
				output.WriteString("\x1b[?" + strings.Join(modes, ";") + map[bool]string{true: "h", false: "l"}[on])
				for _, m := range modes {
					switch {
					case m == "2004":
						paste = on
					case m != "1" && m != "001":
					case on:
						cursor = CursorApplication
					default:
						cursor = CursorNormal
					}
				}
			}
		}
		d := detect(output.String(), func(left int) int { return rapid.IntRange(1, left).Draw(t, "size") })
		if d.Cursor() != cursor || d.BracketedPaste() != paste {
			t.Fatalf("%q: %v cursor, paste %v; want %v, %v", output.String(), d.Cursor(), d.BracketedPaste(), cursor, paste)
		}
	})
}

func TestDetectorAllocatesNothing(t *testing.T) {
	var d Detector
	output := []byte(strings.Repeat("\x1b[?1;2004hsome text\x1b[?"+strings.Repeat("9", 1000)+"\x1b]", 10))
	if n := testing.AllocsPerRun(100, func() { _, _ = d.Write(output) }); n != 0 { // it never fails
		t.Errorf("%v allocations", n)
	}
}

func FuzzDetector(f *testing.F) {
	f.Add("\x1b[?1;2004h", uint8(3))
	f.Add("\x1b[?1h\x1bc\x1b[!p", uint8(1))
	f.Fuzz(func(t *testing.T, output string, size uint8) {
		whole := detect(output, func(left int) int { return left })
		parts := detect(output, func(int) int { return int(size)%17 + 1 })
		if *whole != *parts {
			t.Fatalf("whole %+v, in parts %+v", whole, parts)
		}
		if whole.Cursor() != CursorUnknown && !strings.ContainsAny(output, "hlcp") {
			t.Fatalf("%q set a mode", output)
		}
	})
}
