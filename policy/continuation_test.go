package policy

import (
	"slices"
	"testing"
)

// bash runs the command in each of these; the parser sees text in some.
func TestContinuedExpansions(t *testing.T) {
	for _, tc := range []struct {
		text string
		want bool
	}{
		{"echo \"$\\\n(id)\"", true},
		{"echo $\\\n(id)", true},
		{"echo \"a$\\\n\\\n(id)\"", true},
		{"cat <<EOF\n$\\\n(id)\nEOF", true},
		{"echo \"\\\\$\\\n(id)\"", true},
		{"echo \"$\\\n{IFS}\"", true},

		{"echo \"\\$\\\n(id)\"", false},
		{"echo '$\\\n(id)'", false},
		{"echo a\\\nb", false},
		{"echo \"a\\\nb\"", false},
	} {
		_, findings := Parts(tc.text, "bash")
		if got := slices.ContainsFunc(findings, Finding.Hides); got != tc.want {
			t.Errorf("%q: %+v", tc.text, findings)
		}
	}
}
