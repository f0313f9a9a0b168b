//go:build e2e && linux

package escape_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/test/doctable"
)

const docsFile = "../../docs/reference/escape.md"

// board are the rows of each target, by probe.
type board map[string]map[string]row

// checkTable compares the tables of the documents with what came out.
func checkTable(t *testing.T, b board) {
	t.Helper()
	doctable.Table{
		File:  docsFile,
		Begin: "<!-- The tables are written by: e2e/engine.sh run go test -tags e2e -run Scoreboard ./e2e/escape -update -->\n",
		End:   "<!-- end of the tables -->\n",
	}.Check(t, b.tables(t), *update)
}

func (b board) tables(t *testing.T) string {
	t.Helper()
	old, err := os.ReadFile(docsFile)
	must(t, err)
	var out strings.Builder
	out.WriteString(b.summary())
	group, notes := "", []string(nil)
	flush := func() {
		for i, n := range notes {
			fmt.Fprintf(&out, "%s[%d] %s.\n", map[bool]string{true: "\n"}[i == 0], i+1, strings.ToUpper(n[:1])+n[1:])
		}
		notes = nil
	}
	for _, p := range probes.All() {
		if g := probes.Group(p.ID); g != group {
			flush()
			group = g
			fmt.Fprintf(&out, "\n### %s\n\n| probe | what it does | about | gets out with | %s |\n|---|---|---|---|%s\n", probes.Groups[g], b.names(" | "), strings.Repeat("---|", len(scored)))
		}
		fmt.Fprint(&out, b.line(p, &notes, string(old)))
	}
	flush()
	return out.String()
}

func (b board) names(sep string) string {
	var names []string
	for _, tg := range scored {
		names = append(names, tg.name)
	}
	return strings.Join(names, sep)
}

// line is a probe's. What this machine's kernel lacks is taken as it was seen on
// another.
func (b board) line(p probes.Probe, notes *[]string, old string) string {
	start := fmt.Sprintf("| `%s` |", p.ID)
	cells := []string{fmt.Sprintf("| `%s` | %s | %s | %s |", p.ID, p.Tries, p.Why, p.Weak)}
	for _, tg := range scored {
		r := b[tg.name][p.ID]
		if r.outcome == escape.Unsupported {
			if _, line, ok := strings.Cut(old, start); ok {
				line, _, _ = strings.Cut(line, "\n")
				return start + line + "\n"
			}
		}
		cell := string(r.outcome)
		switch {
		case tg.gvisor() && p.Inside != "":
			cell = "inside" + note(notes, p.Inside)
		case tg.heldBy(p) != "":
			cell += note(notes, tg.heldBy(p))
		}
		cells = append(cells, " "+cell+" |")
	}
	return strings.Join(cells, "") + "\n"
}

// note numbers a text.
func note(notes *[]string, text string) string {
	i := slices.Index(*notes, text)
	if i < 0 {
		i = len(*notes)
		*notes = append(*notes, text)
	}
	return fmt.Sprintf(" [%d]", i+1)
}

func (b board) summary() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n| | %s |\n|---|%s\n", b.names(" | "), strings.Repeat("---|", len(scored)))
	line := func(title string, count func(tg target, p probes.Probe, r row) bool) {
		fmt.Fprintf(&out, "| %s |", title)
		for _, tg := range scored {
			n := 0
			for _, p := range probes.All() {
				if count(tg, p, b[tg.name][p.ID]) {
					n++
				}
			}
			fmt.Fprintf(&out, " %d |", n)
		}
		out.WriteString("\n")
	}
	inside := func(tg target, p probes.Probe) bool { return tg.gvisor() && p.Inside != "" }
	line("probes", func(target, probes.Probe, row) bool { return true })
	line("**escapes**", func(_ target, _ probes.Probe, r row) bool { return r.outcome == escape.Escaped })
	line("held", func(tg target, p probes.Probe, _ row) bool { return !inside(tg, p) })
	line("reach gVisor's own kernel or the sandbox's own warden", func(tg target, p probes.Probe, _ row) bool { return inside(tg, p) })
	line("get out of the weakened container", func(tg target, p probes.Probe, r row) bool { return r.control != escape.Held })
	line("are held even there, by gVisor", func(tg target, p probes.Probe, r row) bool { return r.control == escape.Held })
	return out.String()
}
