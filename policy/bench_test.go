package policy

import (
	"fmt"
	"os"
	"testing"
)

// benchmarked are typical commands.
var benchmarked = []struct{ name, text string }{
	{"git status", "git status"},
	{"pipeline", "ls -la | grep -n foo | head -5"},
	{"npm test", "npm test"},
	{"nested", `sh -c 'cd src && bash -c "git status && ls -la"'`},
}

// BenchmarkDecide is a decision with 200 rules on the real file system.
func BenchmarkDecide(b *testing.B) {
	for _, c := range benchmarked {
		b.Run(c.name, func(b *testing.B) {
			rules := rulesOf(SecurityAllowlist, AskOnMiss)
			for i := range 180 {
				rules.List = append(rules.List, allow(fmt.Sprintf("/opt/tools/**/bin/tool%d --flag", i)))
			}
			for i := range 15 {
				rules.List = append(rules.List, deny(fmt.Sprintf("dangerous%d -rf", i)))
			}
			rules.List = append(rules.List, query("git push"), allow("/usr/bin/git"), allow("/usr/bin/npm"), allow("/usr/bin/ls"), allow("/usr/bin/grep"))
			rules.SafeBins.Value = []string{"cut", "uniq", "head", "tail", "tr", "wc"}
			rules.Chaining.Value = true
			req := Request{Command: c.text, Shell: []string{"/bin/sh", "-c"}, Dir: "/tmp", Path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", Home: os.TempDir()}
			b.ReportAllocs()
			for b.Loop() {
				if d := Decide(req, rules, OS{}); d.Outcome == "" {
					b.Fatal("no outcome")
				}
			}
		})
	}
}

// A rule about another program costs one comparison, and no memory.
func TestRulesAreCheap(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls"), deny("rm"))
	decide := func() { Decide(requestOf("ls -la"), rules, someFiles) }
	few := testing.AllocsPerRun(20, decide)
	for i := range 500 {
		rules.List = append(rules.List, allow(fmt.Sprintf("/opt/**/tool%d --flag x", i)), deny(fmt.Sprintf("danger%d -rf", i)))
	}
	if many := testing.AllocsPerRun(20, decide); many > few+20 {
		t.Errorf("%v allocations with two rules, %v with a thousand", few, many)
	}
}
