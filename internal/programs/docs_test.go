package programs

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/doctable"
)

var update = flag.Bool("update", false, "write the tables in docs/reference/policy.md")

// TestDocs: the tables of the documentation are those of the code.
func TestDocs(t *testing.T) {
	for name, text := range map[string]string{
		"safe bins":    docSafeBins(),
		"wrappers":     docWrappers(),
		"interpreters": docInterpreters(),
		"carriers":     docCarriers(),
	} {
		doctable.Table{
			File: "../../docs/reference/policy.md", Begin: "<!-- " + name + ": go test ./internal/programs -run TestDocs -update -->\n", End: "<!-- end -->\n",
		}.Check(t, text, *update)
	}
}

// code is words in the typeface of code, with blanks between them.
func code(words ...string) string {
	for i, w := range words {
		words[i] = "`" + strings.ReplaceAll(w, "|", `\|`) + "`"
	}
	return strings.Join(words, " ")
}

func docSafeBins() string {
	var b strings.Builder
	b.WriteString("| | by default | other arguments | options | options with a value | never |\n|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(SafeBinProfiles)) {
		p := SafeBinProfiles[name]
		args := "none"
		if p.MaxPositional > 0 {
			args = fmt.Sprintf("%d to %d", p.MinPositional, p.MaxPositional)
		}
		standard := ""
		if slices.Contains(DefaultSafeBins, name) {
			standard = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", code(name), standard, args,
			code(slices.Clone(p.Flags)...), code(slices.Clone(p.ValueFlags)...), code(slices.Clone(p.DeniedFlags)...))
	}
	return b.String()
}

func docWrappers() string {
	rows := map[string][]string{}
	for name, w := range wrappers() {
		key := map[use]string{transparent: "transparent", owned: "allowed too"}[w.use]
		if w.use == refused {
			key = "refused: " + w.reason
		}
		rows[key] = append(rows[key], name)
	}
	rows["shells: what they are given with `-c` is looked through, as text"] = slices.Collect(maps.Keys(shellForms))
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	order := func(key string) int {
		return slices.IndexFunc([]string{"tr", "al", "sh", "re"}, func(p string) bool { return strings.HasPrefix(key, p) })
	}
	for _, key := range slices.SortedFunc(maps.Keys(rows), func(a, b string) int { return cmp.Or(order(a)-order(b), strings.Compare(a, b)) }) {
		slices.Sort(rows[key])
		fmt.Fprintf(&b, "| %s | %s |\n", key, code(rows[key]...))
	}
	return b.String()
}

func docInterpreters() string {
	return code(slices.Sorted(maps.Keys(interpreters()))...) + "\n"
}

// spelled are the options of a list for newGrammar, written as on a command line.
func spelled(list string) []string {
	var options []string
	for field := range strings.FieldsSeq(list) {
		for name := range strings.SplitSeq(strings.TrimRight(field, ":?%"), ",") {
			switch {
			case name[0] == '-': // a long name behind one dash
			case len(name) == 1:
				name = "-" + name
			default:
				name = "--" + name
			}
			options = append(options, name)
		}
	}
	return options
}

func docCarriers() string {
	var b strings.Builder
	b.WriteString("| program | options | what they do |\n|---|---|---|\n")
	for _, row := range slices.Concat(carrierTable, gitTable) {
		if row.why == "" {
			continue // listed only so that values are not taken for options
		}
		options := "every use"
		if row.options != "*" {
			options = code(spelled(row.options)...)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(strings.Split(row.programs, ",")...), options, row.why)
	}
	b.WriteString("| `git` | a command that does not come with git | may be an alias, which can be any command, or a program of its own |\n")
	for _, name := range slices.Sorted(maps.Keys(carrierWords)) {
		if !strings.Contains(name, " ") {
			fmt.Fprintf(&b, "| %s | some arguments that are no options | looked at by themselves |\n", code(name))
		}
	}
	return b.String()
}
