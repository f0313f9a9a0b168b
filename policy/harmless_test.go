package policy

import (
	"slices"
	"testing"
)

// Common lines of scripts that hide nothing are no reason to ask.
func TestHidesNothing(t *testing.T) {
	for text, hides := range map[string]bool{
		"set -e; make":                     false,
		"set -euo pipefail\nmake":          false,
		"set -o errexit -o pipefail; make": false,
		"set +e; make; set -e":             false,
		"if [ -f x ]; then cat x; fi":      false,
		"[ -n \"$A\" ] && echo \"$A\"":     false,
		"set -a; make":                     true,
		"set -o posix; make":               true,
		"set -e -o; make":                  true,
		"set -euo $X; make":                true,
		"set -oo pipefail errexit; make":   true,
		"set; make":                        false,
		"shopt -s expand_aliases; make":    true,
		"[abc] x":                          true,
	} {
		_, findings := Parts(text, "bash")
		if got := slices.ContainsFunc(findings, Finding.Hides); got != hides {
			t.Errorf("%q: %+v", text, findings)
		}
	}
}
