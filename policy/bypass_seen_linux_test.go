package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The policy finds every bypass. This test runs none of them. TestBypasses and
// TestBypassesAround make the same decisions and prove that the rows are bypasses, which
// takes a minute.
func TestBypassesAreFound(t *testing.T) {
	f := newFixture(t)
	n, dirs := 0, map[string]string{}
	look := func(f fixture, row bypass, own bool) {
		if row.pinned { // what the decision pins has to be run
			return
		}
		n++
		prepared := strings.Contains(row.text, "pull") || strings.Contains(row.text, "GIT_DIR") || len(row.env) > 0 && strings.HasPrefix(row.env[0], "GIT_DIR")
		// Rows without files of their own share a directory.
		key := fmt.Sprint(f.allowlists, strings.Contains(row.text, "git"), strings.Contains(row.text, "big"), row.linked())
		dir := dirs[key]
		if dir == "" || own || prepared {
			dir = f.make(t, row)
		}
		if prepared {
			f.prepareGit(t, dir)
		} else if !own {
			dirs[key] = dir
		}
		f.check(t, row, dir, f.filled(row.text, dir))
	}
	for _, class := range slices.Concat(shellBypasses, wrapperBypasses, carrierBypasses) {
		for _, row := range class.rows {
			look(f, row, len(row.files) > 0)
		}
	}
	f.allowlists = true // as in TestBypassesAround
	for _, class := range slices.Concat(furtherBypasses, workspaceBypasses) {
		for _, row := range class.rows {
			own := len(row.files) > 0
			files := maps.Clone(around)
			maps.Copy(files, row.files)
			row.files = files
			look(f, row, own)
		}
	}
	if n < 700 {
		t.Errorf("only %d bypasses", n)
	}
}
