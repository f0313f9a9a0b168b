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
		{"echo \"$\\\n\\(ls)\"", false}, // "$\(ls)"
		{"echo \"$\\\n\\\n\\(ls)\"", false},
		{"echo \"$\\\n\\\\(ls)\"", false},
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

// A part is shown as a shell reads it, without line continuations.
func TestPartWithoutContinuations(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"git \\\n  status", "git   status"},
		{"git sta\\\ntus \"a\\\nb\"", "git status \"ab\""},
		{"echo 'a\\\nb' c\\\nd", "echo 'a\\\nb' cd"},
		{"echo $'a\\\nb' c\\\nd", "echo $'a\\\nb' cd"},
		{"echo \"$(echo 'a\\\nb')\" c\\\nd", "echo \"$(echo 'a\\\nb')\" cd"},
		{"echo a\\\\\nb", "echo a\\\\"},
		{"echo é\\\né", "echo éé"},
	} {
		parts, _ := Parts(tc.text, "bash")
		if len(parts) == 0 || parts[0].Text != tc.want {
			t.Errorf("%q: %+v, want %q", tc.text, parts, tc.want)
		}
	}
}
