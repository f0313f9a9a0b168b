package words

import (
	"testing"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{"": "''", "a-b/c.d": "a-b/c.d", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "~": "'~'", "a[1]": "'a[1]'", "é": "'é'"} {
		if got := Quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
