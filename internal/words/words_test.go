package words

import (
	"testing"
	"time"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{"": "''", "a-b/c.d": "a-b/c.d", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "~": "'~'", "a[1]": "'a[1]'", "é": "'é'"} {
		if got := Quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 1234 * time.Millisecond: "1.2s", 9999 * time.Millisecond: "9.9s", 59 * time.Second: "59s",
		time.Minute: "1m", 61 * time.Second: "1m1s", time.Hour: "1h", 3*time.Hour + 59*time.Minute: "3h59m", 24 * time.Hour: "1d", 50 * time.Hour: "2d2h",
	} {
		if got := Age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
