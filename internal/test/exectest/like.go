package exectest

import (
	"path"
	"testing"
)

// Like returns the names of the cases that match a pattern.
func Like(t testing.TB, patterns []string) []string {
	t.Helper()
	var names []string
	for _, pattern := range patterns {
		before := len(names)
		for _, c := range Cases() {
			if ok, err := path.Match(pattern, c.Name); err != nil {
				t.Fatal(err)
			} else if ok {
				names = append(names, c.Name)
			}
		}
		if len(names) == before {
			t.Errorf("no case is like %q", pattern)
		}
	}
	return names
}
