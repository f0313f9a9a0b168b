package cmdline

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 10, ""}, {"one", 2, "one"}, {"one two", 7, "one two"}, {"one two", 6, "one|two"},
		{"a bb ccc dddd", 5, "a bb|ccc|dddd"}, {"  spaces   go ", 80, "spaces go"},
	} {
		if got := strings.Join(Wrap(tc.text, tc.width), "|"); got != tc.want {
			t.Errorf("%q at %d: %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

// A flag that is unset by default says so in its own words, or not at all.
func TestFlagDefaults(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Int("most", 0, "`N`: how many (default no limit)")
	f.Float64("rate", 0, "`N`: how many a second")
	f.Int("keep", 200, "`N`: how many are kept")
	var out strings.Builder
	f.VisitAll(func(f *pflag.Flag) { printFlag(&out, f, 100) })
	want := `      --keep N              how many are kept (default 200)
      --most N              how many (default no limit)
      --rate N              how many a second
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}
