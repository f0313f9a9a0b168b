package corral_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

func TestJoinNotice(t *testing.T) {
	for want, parts := range map[string][]string{
		"":                  {"", ""},
		"one; two":          {"one", "", "two"},
		"a b [2Jc":          {"a\nb\x1b[2Jc"},
		"no\ufffd text x y": {"no\xff text\u202ex\u2028y"},
	} {
		if got := corral.JoinNotice(parts...); got != want {
			t.Errorf("%q: %q, want %q", parts, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 1<<20), "x" + strings.Repeat("ü", 1<<20), "xy" + strings.Repeat("語", 1<<20)} {
		got := corral.JoinNotice(long)
		if len(got) > corral.MaxNotice || len(got) < corral.MaxNotice-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes of a long notice: %q", len(got), got[len(got)-9:])
		}
		if again := corral.JoinNotice(got); again != got {
			t.Errorf("a notice that was bounded is changed when it is bounded again")
		}
	}
}
