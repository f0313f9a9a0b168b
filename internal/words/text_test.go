package words

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

func TestDecoder(t *testing.T) {
	type step struct {
		stream corral.Stream
		in     string
		want   string
	}
	const out, err = corral.Stdout, corral.Stderr
	for _, tc := range []struct {
		name  string
		steps []step
		rest  string // Flush of stdout
	}{
		{"whole", []step{{out, "aä日🙂", "aä日🙂"}}, ""},
		{"cut in two", []step{{out, "a\xc3", "a"}, {out, "\xa4b", "äb"}}, ""},
		{"cut in four", []step{{out, "\xf0", ""}, {out, "\x9f", ""}, {out, "\x99", ""}, {out, "\x82", "🙂"}}, ""},
		{"each stream by itself", []step{{out, "\xe6", ""}, {err, "\xe6\x97", ""}, {out, "\x97\xa5", "日"}, {err, "\xa5!", "日!"}}, ""},
		{"never completed", []step{{out, "a\xe6\x97", "a"}}, "��"},
		{"completed by something else", []step{{out, "\xe6\x97", ""}, {out, "x", "��x"}}, ""},
		{"invalid", []step{{out, "\xff\xfe", "��"}}, ""},
		{"continuation alone", []step{{out, "\xa5\xa5\xa5\xa5\xa5", "�����"}}, ""},
		{"surrogate", []step{{out, "\xed\xa0\x80", "���"}}, ""},
		{"overlong", []step{{out, "\xc0\x80", "��"}}, ""},
		{"a U+FFFD of the command's own", []step{{out, "�", "�"}}, ""},
		{"nothing", []step{{out, "", ""}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var d Decoder
			for i, s := range tc.steps {
				if got := d.Decode(s.stream, []byte(s.in)); got != s.want {
					t.Errorf("step %d: %q, want %q", i, got, s.want)
				}
			}
			if got := d.Flush(out); got != tc.rest {
				t.Errorf("rest %q, want %q", got, tc.rest)
			}
			if got := d.Flush(out); got != "" {
				t.Errorf("flushed twice: %q", got)
			}
		})
	}
}

func TestStripANSI(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "héllo\twörld\r\n", "héllo\twörld\r\n"},
		{"colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"colour with colons", "\x1b[38:2::255:0:0mred", "red"},
		{"private mode", "\x1b[?2004hx\x1b[?2004l", "x"},
		{"intermediate", "\x1b[2 qx", "x"},
		{"cursor", "\x1b7a\x1b8\x1b=b\x1bMc", "abc"},
		{"character set", "\x1b(Bx\x1b%Gy", "xy"},
		{"title, BEL", "\x1b]0;a title\ax", "x"},
		{"title, ST", "\x1b]0;a title\x1b\\x", "x"},
		{"link", "\x1b]8;;https://example.org\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"DCS", "\x1bP1$r0m\x1b\\x", "x"},
		{"BEL does not end a DCS", "\x1bPtmux;\a hidden\x1b\\x", "x"},
		{"SOS, PM, APC", "\x1bXa\x1b\\1\x1b^b\x1b\\2\x1b_c\x1b\\3", "123"},
		{"8-bit CSI", "\u009b31mred", "red"},
		{"8-bit OSC and ST", "\u009d0;title\u009cx", "x"},
		{"8-bit CSI that is no UTF-8", "\x9b31m", "�31m"},
		{"control characters", "a\x00b\a\b\v\f\x0e\x7fc", "abc"},
		{"C1", "a\u0085b\u0080c", "abc"},
		{"line feed within", "\x1b[3\n1mx", "\nx"},
		{"DEL within", "\x1b[3\x7f1mx", "x"},
		{"CAN aborts", "\x1b[31\x18mx", "mx"},
		{"ESC begins anew", "\x1b[31\x1b[0mx", "x"},
		{"ESC within a string", "\x1b]0;title\x1b[0mx", "x"},
		{"no sequence holds an é", "\x1b[31éx", "éx"},
		{"unfinished", "x\x1b[31", "x"},
		{"ESC at the end", "x\x1b", "x"},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := StripANSI(tc.in); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// A sequence that never ends must not hide the rest of the output.
func TestStripANSIEndless(t *testing.T) {
	for _, begin := range []string{"\x1b]0;", "\x1bP", "\x1b[", "\x1b ", "\u009b"} {
		var a Stripper
		if got := a.Strip(begin); got != "" {
			t.Errorf("%q shows %q", begin, got)
		}
		hidden := 0
		for range 2000 {
			hidden += 100 - len(a.Strip(strings.Repeat("0", 100)))
		}
		// ESC, a blank and 0 is a whole sequence.
		if hidden > 64<<10 {
			t.Errorf("%q hides %d characters", begin, hidden)
		}
		if got := a.Strip("shown"); got != "shown" {
			t.Errorf("after %q: %q", begin, got)
		}
	}
}

// pieces cuts data where cuts says: each byte of it is the length of a piece.
func pieces(data, cuts []byte) [][]byte {
	var all [][]byte
	for _, c := range cuts {
		n := min(int(c), len(data))
		all, data = append(all, data[:n]), data[n:]
	}
	return append(all, data)
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("a日\xe6\x97🙂\xff"), []byte{2, 1, 0, 3})
	f.Add([]byte("\xf0\x9f\x99"), []byte{1, 1})
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		var d Decoder
		var got strings.Builder
		for i, p := range pieces(data, cuts) {
			text := d.Decode(corral.Stdout, p)
			if !utf8.ValidString(text) {
				t.Fatalf("piece %d is no UTF-8: %q", i, text)
			}
			got.WriteString(text)
			// The other stream must not affect this one.
			d.Decode(corral.Stderr, cuts)
		}
		got.WriteString(d.Flush(corral.Stdout))
		if want := string([]rune(string(data))); got.String() != want {
			t.Fatalf("in pieces %q, at once %q", got.String(), want)
		}
	})
}

func FuzzStripper(f *testing.F) {
	f.Add([]byte("\x1b[1;31mröt\x1b[0m\x1b]0;t\a\u009b1m\x1bPx\x1b\\"), []byte{1, 1, 1, 4})
	f.Add([]byte("\x1b[3\n1m\x18\x1b\x1b]\x1b"), []byte{3})
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		var d Decoder
		var a Stripper
		var got strings.Builder
		for _, p := range pieces(data, cuts) {
			got.WriteString(a.Strip(d.Decode(corral.Stdout, p)))
		}
		got.WriteString(a.Strip(d.Flush(corral.Stdout)))
		text := got.String()
		if want := StripANSI(string(data)); text != want {
			t.Fatalf("in pieces %q, at once %q", text, want)
		}
		for _, r := range text {
			if unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) {
				t.Fatalf("%q has the control character %U", text, r)
			}
		}
		if again := StripANSI(text); again != text {
			t.Fatalf("%q is not clean: %q", text, again)
		}
		// Input without any control character but those three is untouched.
		if in := string(data); utf8.ValidString(in) && !strings.ContainsFunc(in, func(r rune) bool {
			return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r)
		}) && text != in {
			t.Fatalf("plain text %q became %q", in, text)
		}
	})
}

// Names and commands come from agents: what is shown of them is what they are.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"ls \x1b[31mred\x1b[m":   "ls red",
		"a\nb\tc\x07":            "a; b?c",
		"rm \u202egpj.\u2066exe": "rm ?gpj.?exe",
		"\u009b2Jx é 日本":         "x é 日本",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
