package cmdline

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
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

func TestArguments(t *testing.T) {
	root := &cobra.Command{Use: "corral"}
	for _, tc := range []struct {
		check cobra.PositionalArgs
		args  []string
		want  string
	}{
		{Exactly("PATH", "VALUE"), []string{"a"}, "corral wants the PATH and VALUE; arguments given: 1"},
		{Exactly("ID of an approval"), nil, "corral wants the ID of an approval; arguments given: 0"},
		{Exactly("NAME"), []string{"a"}, ""},
		{AtMost(1), []string{"a", "b"}, "corral takes at most 1; arguments given: 2"},
		{AtMost(1), nil, ""},
		{AtLeastOne("ID of a session"), nil, "corral wants the ID of a session"},
		{NoArgs, []string{"a"}, `corral takes no argument, and there is "a"`},
	} {
		got := ""
		if err := tc.check(root, tc.args); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q: %q, want %q", tc.args, got, tc.want)
		}
	}
}
