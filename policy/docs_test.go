package policy

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/doctable"
	"github.com/corral-exec/corral/internal/test/vectors"
)

var update = flag.Bool("update", false, "write the tables in docs/reference/policy.md and docs/reference/openclaw.md")

// TestDocs: the tables of the documentation are those of the code.
func TestDocs(t *testing.T) {
	for file, table := range map[string][2]string{
		"policy.md":   {"outcomes", outcomes()},
		"openclaw.md": {"vectors", docVectors(t)},
	} {
		doctable.Table{
			File: "../docs/reference/" + file, Begin: "<!-- " + table[0] + ": go test ./policy -run TestDocs -update -->\n", End: "<!-- end -->\n",
		}.Check(t, table[1], *update)
	}
}

// code is words in the typeface of code, with blanks between them.
func code(words ...string) string {
	for i, w := range words {
		words[i] = "`" + strings.ReplaceAll(w, "|", `\|`) + "`"
	}
	return strings.Join(words, " ")
}

// docVectors lists the comparisons with OpenClaw, and the differences.
func docVectors(t *testing.T) string {
	var b strings.Builder
	list := vectors.Read[allowlistVector](t, "testdata/allowlist.jsonl")
	agree, all := 0, 0
	skipped := map[string]int{}
	for _, v := range list {
		if why := v.skipped(); why != "" {
			skipped[why]++
			continue
		}
		all++
		if allowlistDiffers[v.ID] == "" {
			agree++
		}
	}
	n := len(vectors.Read[struct{}](t, "../internal/programs/testdata/argv.jsonl"))
	fmt.Fprintf(&b, "%d of %d known answers on commands and rules are the same, and %d of %d on programs and\ntheir arguments. The others:\n\n", agree, all, n, n)
	b.WriteString("| input | why Corral answers otherwise |\n|---|---|\n")
	for _, v := range list {
		if why := allowlistDiffers[v.ID]; why != "" {
			input := cmp.Or(v.Input.Command, strings.Join(v.Input.Argv, " "), v.Input.Pattern)
			if v.Input.Target != "" {
				input += "  on  " + v.Input.Target
			}
			fmt.Fprintf(&b, "| %s | %s |\n", code(strings.ReplaceAll(input, "\n", "⏎")), why)
		}
	}
	b.WriteString("\nNot compared:\n\n")
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(&b, "- %s (%d)\n", why, skipped[why])
	}
	return b.String()
}
