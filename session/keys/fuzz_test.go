package keys

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
)

func FuzzEncode(f *testing.F) {
	f.Add("hi", "0d,0x0a zz", "Enter|C-c|M-Up", uint8(0))
	f.Add("", "", "C-foo|S-|^|Ctrl+C", uint8(6))
	f.Fuzz(func(t *testing.T, literal, hex, names string, options uint8) {
		in := Request{Literal: literal, Hex: strings.Split(hex, "|"), Keys: strings.Split(names, "|")}
		o := Options{Cursor: CursorMode(options % 4), Strict: options&4 != 0}
		got, err := Encode(in, o)
		if err != nil {
			if !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, corral.ErrUnavailable) {
				t.Fatalf("%v is of no kind", err)
			}
			if corral.Hint(err) == "" || got.Data != nil || len(err.Error()) > 10_000 {
				t.Fatalf("%q, %v, hint %q", got.Data, err, corral.Hint(err))
			}
			return
		}
		// The longest that so few bytes of a name stand for: F5, ESC [ 1 5 ~.
		if n := len(literal) + len(hex) + 4*len(names); len(got.Data) > n || len(got.Data) > MaxBytes {
			t.Fatalf("%d bytes of %+v", len(got.Data), in)
		}
		if len(got.Warnings) > maxProblems+1 || o.Strict && got.Warnings != nil {
			t.Fatalf("warnings: %q", got.Warnings)
		}
		if !strings.HasPrefix(string(got.Data), literal) {
			t.Fatalf("%q does not begin with the literal text %q", got.Data, literal)
		}
		for _, w := range got.Warnings {
			if strings.ContainsFunc(w, func(r rune) bool { return r < ' ' }) || len(w) > 500 {
				t.Fatalf("the warning %q", w)
			}
		}
	})
}

// An element is encoded by itself: what is around it does not matter.
func TestEncodeConcatenates(t *testing.T) {
	element := rapid.OneOf(
		rapid.SampledFrom([]string{"Up", "home", "C-c", "M-F5", "hello", "C-foo", "", " ", "Ctrl+C", "KP-", "S-1"}),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Cursor: rapid.SampledFrom([]CursorMode{CursorNormal, CursorApplication}).Draw(t, "mode")}
		names := rapid.SliceOf(element).Draw(t, "keys")
		all, err := Encode(Request{Keys: names}, o)
		if err != nil {
			t.Fatal(err)
		}
		var parts string
		for _, name := range names {
			one, err := Encode(Request{Keys: []string{name}}, o)
			if err != nil {
				t.Fatal(err)
			}
			parts += string(one.Data)
		}
		if string(all.Data) != parts {
			t.Fatalf("%q: %q, by themselves %q", names, all.Data, parts)
		}
	})
}

// The order and the number of modifiers do not matter, nor does case.
func TestModifiersAreASet(t *testing.T) {
	base := rapid.SampledFrom([]string{"Up", "Home", "F1", "F5", "DC", "Enter", "Tab", "KP5", "x", "1", "?", "é", "-", "^"})
	rapid.Check(t, func(t *rapid.T) {
		used := rapid.SliceOfN(rapid.SampledFrom([]string{"C-", "M-", "S-"}), 0, 6).Draw(t, "modifiers")
		name := base.Draw(t, "key")
		encode := func(prefix string) string {
			got, err := Encode(Request{Keys: []string{prefix + name}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return string(got.Data)
		}
		var once string
		for _, m := range []string{"S-", "M-", "C-"} {
			if strings.Contains(strings.Join(used, ""), m) {
				once += strings.ToLower(m)
			}
		}
		if a, b := encode(strings.Join(used, "")), encode(once); a != b {
			t.Fatalf("%s with %q is %q, with %q %q", name, used, a, once, b)
		}
	})
}
