package files

import (
	"io"
	"math"
	"strings"
	"testing"
)

func TestBoundedByMost(t *testing.T) {
	for limit, want := range map[int64]bool{4: false, 5: true, math.MaxInt64: true} {
		if text, err := io.ReadAll(Bounded(strings.NewReader("hello"), limit)); (err == nil && string(text) == "hello") != want {
			t.Errorf("by %d: %q, %v", limit, text, err)
		}
	}
}
