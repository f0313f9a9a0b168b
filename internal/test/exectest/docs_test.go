package exectest

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/reference/conformance.md")

const docsFile = "../../../docs/reference/conformance.md"

const docsIntro = `# Conformance

Every place that Corral runs commands in passes the same cases. Each line below
is one of them, tested against every executor: commands on this machine, in a
sandbox and on a node, and the router in front of each. This page is generated from
package internal/test/exectest, with ` + "`go test ./internal/test/exectest -run TestDocs -update`" + `;
it cannot differ from what is tested.

A place that cannot do what a case demands answers ` + "`errors.ErrUnsupported`" + `, which is
tested as well, or is exempt for a stated reason; the summary of a test run
counts both.
`

func docs() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d cases.\n", docsIntro, len(Cases()))
	group := ""
	for _, c := range Cases() {
		if g, _, _ := strings.Cut(c.Name, "/"); g != group {
			group = g
			fmt.Fprintf(&b, "\n## %s\n\n| case | behaviour |\n|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Name, strings.ReplaceAll(c.Doc, "|", `\|`))
	}
	return b.String()
}

func TestDocs(t *testing.T) {
	want := docs()
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatalf("%v; run this test with -update", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/reference/conformance.md is out of date; run this test with -update (-cases +file):\n%s", diff)
	}
}

func TestCasesAreDescribed(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+/[a-z0-9-]+$`)
	seen := map[string]bool{}
	for _, c := range Cases() {
		if !name.MatchString(c.Name) || seen[c.Name] {
			t.Errorf("%q is no name for a case, or there are two", c.Name)
		}
		seen[c.Name] = true
		if !strings.HasSuffix(c.Doc, ".") || strings.Contains(c.Doc, "\n") {
			t.Errorf("%s: not a sentence: %q", c.Name, c.Doc)
		}
		if c.Func == nil {
			t.Errorf("%s does nothing", c.Name)
		}
	}
}
