package cmdline

import (
	"strings"
	"testing"
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
