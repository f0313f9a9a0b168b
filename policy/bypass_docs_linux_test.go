package policy_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// TestDocsBypasses: the documented table of bypasses that rules or the kernel stop is
// made from the rows that TestBypasses, TestBypassesAround and TestBypassesEnforced
// run. For the kernel, only rows that need no installed program count, so that the
// figures are the same on every machine.
func TestDocsBypasses(t *testing.T) {
	const file, begin, end = "../docs/explain/enforcement.md", "<!-- bypasses: go test ./policy -run TestDocs -update -->\n", "<!-- end -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	want := before + begin + bypassTable(t) + end + after
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(data) != want {
		t.Errorf("the table in %s is old: go test ./policy -run TestDocs -update", file)
	}
}

func bypassTable(t *testing.T) string {
	f := newFixture(t)
	var b strings.Builder
	b.WriteString("| class | bypasses | the rules alone | enforcement alone |\n|---|---|---|---|\n")
	for _, class := range slices.Concat(shellBypasses, wrapperBypasses, carrierBypasses, furtherBypasses, workspaceBypasses) {
		allowed, pinned, stopped, unlimited := 0, 0, 0, 0
		for _, row := range class.rows {
			switch {
			case row.kernel != "":
				allowed++
			case row.pinned:
				pinned++
			}
			if row.needs != "" || row.code || row.unproved != "" {
				continue
			}
			if _, d := f.ifAllowed(t, row); d != nil && !d.AnyProgram {
				stopped++
			} else {
				unlimited++
			}
		}
		rules := fmt.Sprintf("%s asked about", allOf(len(class.rows)-allowed-pinned, len(class.rows)))
		if allowed > 0 {
			rules += fmt.Sprintf(", %d allowed", allowed)
		}
		if pinned > 0 {
			rules += fmt.Sprintf(", %d made harmless: the program that was decided on runs", pinned)
		}
		kernel := "–"
		if stopped+unlimited > 0 {
			kernel = allOf(stopped, stopped+unlimited) + " stopped"
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", class.name, len(class.rows), rules, kernel)
	}
	return b.String()
}

func allOf(n, all int) string {
	switch n {
	case all:
		return "all"
	case 0:
		return "none"
	}
	return fmt.Sprintf("%d of %d", n, all)
}

// ifAllowed is the directory of a bypass, and the domain that it would have if the
// rules had allowed it.
func (f fixture) ifAllowed(t *testing.T, row bypass) (dir string, d *corral.Domain) {
	t.Helper()
	files := maps.Clone(around)
	maps.Copy(files, row.files)
	row.files = files
	dir = f.make(t, row)
	return dir, policy.DomainIfAllowed(f.request(row, dir), f.allowlist(row, dir, true), policy.OS{})
}
