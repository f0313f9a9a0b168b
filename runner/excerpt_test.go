package runner

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestExcerptString(t *testing.T) {
	for _, tc := range []struct {
		e    Excerpt
		want string
	}{
		{Excerpt{}, ""},
		{Excerpt{Head: "all\n"}, "all\n"},
		{Excerpt{Head: "a", Tail: "z", Omitted: 3}, "a\n[… 3 bytes left out …]\nz"},
		{Excerpt{Omitted: 3}, "\n[… 3 bytes left out …]\n"},
	} {
		if got := tc.e.String(); got != tc.want {
			t.Errorf("%+v is %q, want %q", tc.e, got, tc.want)
		}
	}
}

// However output comes in, with gaps and all, the excerpt begins and ends like
// it, every byte is accounted for, and memory is bounded.
func TestExcerptAccountsForEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 20).Draw(t, "limit")
		b := excerptBuffer{lastBytes: lastBytes{max: limit}}
		var total int64
		var all, sinceGap strings.Builder
		gap := false
		for range rapid.IntRange(0, 20).Draw(t, "chunks") {
			if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
				n := rapid.Int64Range(1, 1000).Draw(t, "lost")
				b.skip(n)
				total += n
				gap = true
				sinceGap.Reset()
			}
			chunk := rapid.SampledFrom([]string{"a", "ä", "日本", "🙂", "\xff", "plain text, and some", "\xe6\x97"}).Draw(t, "chunk")
			b.write([]byte(chunk))
			total += int64(len(chunk))
			if !gap {
				all.WriteString(chunk)
			}
			sinceGap.WriteString(chunk)
			if len(b.tail) > 2*limit {
				t.Fatalf("the tail holds %d bytes with a limit of %d", len(b.tail), limit)
			}
		}
		e := b.excerpt()
		if got := int64(len(e.Head)+len(e.Tail)) + e.Omitted; got != total {
			t.Fatalf("%d bytes accounted for, want %d: %+v", got, total, e)
		}
		if e.Omitted == 0 {
			if e.Head != all.String() || e.Tail != "" {
				t.Fatalf("not the whole: %+v", e)
			}
			return
		}
		if !strings.HasPrefix(all.String(), e.Head) || !strings.HasSuffix(sinceGap.String(), e.Tail) {
			t.Fatalf("neither beginning nor end: %+v", e)
		}
		if len(e.Head) > limit || len(e.Tail) > limit {
			t.Fatalf("over the limit of %d: %+v", limit, e)
		}
		if valid := utf8.ValidString(all.String()) && utf8.ValidString(sinceGap.String()); valid && !gap && (!utf8.ValidString(e.Head) || !utf8.ValidString(e.Tail)) {
			t.Fatalf("a character is cut: %+v", e)
		}
	})
}
