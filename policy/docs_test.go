package policy

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables in docs/reference/policy.md and docs/reference/openclaw.md")

// TestDocs: the tables are those of the code.
func TestDocs(t *testing.T) {
	for _, part := range []struct {
		file, name string
		table      func() string
	}{
		{"policy.md", "outcomes", outcomes},
		{"policy.md", "safe bins", docSafeBins},
		{"policy.md", "wrappers", docWrappers},
		{"policy.md", "interpreters", docInterpreters},
		{"policy.md", "carriers", docCarriers},
		{"openclaw.md", "vectors", func() string { return docVectors(t) }},
	} {
		file := "../docs/reference/" + part.file
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		begin := "<!-- " + part.name + ": go test ./policy -run TestDocs -update -->\n"
		before, rest, ok := strings.Cut(string(data), begin)
		_, after, ok2 := strings.Cut(rest, "<!-- end -->\n")
		if !ok || !ok2 {
			t.Fatalf("%s has no place for %s", file, part.name)
		}
		want := before + begin + part.table() + "<!-- end -->\n" + after
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if string(data) != want {
			t.Errorf("%s in %s are old: go test ./policy -run TestDocs -update", part.name, file)
		}
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
	for _, name := range slices.Sorted(maps.Keys(safeBinProfiles)) {
		p := safeBinProfiles[name]
		args := "none"
		if p.MaxPositional > 0 {
			args = fmt.Sprintf("%d to %d", p.MinPositional, p.MaxPositional)
		}
		standard := ""
		if slices.Contains(defaultSafeBins, name) {
			standard = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", code(name), standard, args,
			code(slices.Clone(p.Flags)...), code(slices.Clone(p.ValueFlags)...), code(slices.Clone(p.DeniedFlags)...))
	}
	return b.String()
}

func docWrappers() string {
	rows := map[string][]string{}
	for name, w := range wrappers {
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
	return code(slices.Sorted(maps.Keys(interpreters))...) + "\n"
}

// spelled are the options of a list, as newGrammar reads it, as people write
// them.
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
			continue // only so that values are not taken for options
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

// docVectors is what is compared with OpenClaw, and where it differs.
func docVectors(t *testing.T) string {
	var b strings.Builder
	agree, all := 0, 0
	skipped := map[string]int{}
	for _, v := range readAllowlist(t) {
		if why := v.skipped(); why != "" {
			skipped[why]++
			continue
		}
		all++
		if allowlistDiffers[v.ID] == "" {
			agree++
		}
	}
	argv, err := os.ReadFile("testdata/argv.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := strings.Count(string(argv), "\n")
	fmt.Fprintf(&b, "%d of %d known answers on commands and rules are the same, and %d of %d on programs and\ntheir arguments. The others:\n\n", agree, all, n-len(argvDiffers), n)
	b.WriteString("| input | why Corral answers otherwise |\n|---|---|\n")
	for _, v := range readAllowlist(t) {
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
