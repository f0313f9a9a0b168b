package foreground

import (
	"bytes"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-a,d": "\x01d", "Ctrl-[": "\x1b", "ctrl-@,ctrl-_": "\x00\x1f", "~,.": "~.", "none": "",
	} {
		var k Keys
		if err := k.Set(text); err != nil || string(k.sequence) != want || k.String() != text {
			t.Errorf("%q: %q, %v; want %q", text, k.sequence, err, want)
		}
	}
	for _, text := range []string{"", ",", "ctrl-", "ctrl-ab", "ctrl-1", "ab", "é", " ", "ctrl-p,", "a,a,a,a,a,a,a,a,a"} {
		if err := new(Keys).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestDetacher(t *testing.T) {
	for _, tc := range []struct {
		sequence, in string // in: chunks with | between
		out          string
		detached     bool
	}{
		{"PQ", "hello", "hello", false},
		{"PQ", "aPQb", "a", true},
		{"PQ", "aP|Qb", "a", true},
		{"PQ", "aP|b", "aPb", false},
		{"PQ", "PP|Q", "P", true},
		{"PQ", "P", "", false}, // held until the next key
		{"PPQ", "PPPQ", "P", true},
		{"PPQ", "PP|x|PPQ", "PPx", true},
		{"ABAC", "ABABAC", "AB", true},
		{"", "PQ", "PQ", false},
	} {
		d := detacher{sequence: []byte(tc.sequence)}
		var out []byte
		detached := false
		for chunk := range strings.SplitSeq(tc.in, "|") {
			got, now := d.pass([]byte(chunk))
			out, detached = append(out, got...), now
			if now {
				break
			}
		}
		if string(out) != tc.out || detached != tc.detached {
			t.Errorf("%q in %q: %q, %v; want %q, %v", tc.sequence, tc.in, out, detached, tc.out, tc.detached)
		}
	}
}

// FuzzDetacher: what is typed is passed on as it is, up to where the keys are
// first, and all but what may be the beginning of them.
func FuzzDetacher(f *testing.F) {
	f.Add([]byte("ab"), []byte("xaabab"), uint8(2))
	f.Add([]byte("aab"), []byte("aaab"), uint8(1))
	f.Fuzz(func(t *testing.T, sequence, input []byte, step uint8) {
		if len(sequence) == 0 || len(sequence) > maxKeys || step == 0 {
			return
		}
		d := detacher{sequence: sequence}
		var out []byte
		detached := false
		for rest := input; len(rest) > 0 && !detached; {
			n := min(int(step), len(rest))
			var got []byte
			got, detached = d.pass(rest[:n])
			out, rest = append(out, got...), rest[n:]
		}
		at := bytes.Index(input, sequence)
		switch {
		case detached != (at >= 0):
			t.Fatalf("%q in %q: detached %v", sequence, input, detached)
		case detached && string(out) != string(input[:at]):
			t.Fatalf("%q in %q: %q was passed on", sequence, input, out)
		case !detached && (!bytes.HasPrefix(input, out) || len(input)-len(out) >= len(sequence)):
			t.Fatalf("%q in %q: %q was passed on", sequence, input, out)
		}
	})
}
