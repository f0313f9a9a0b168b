package policy

import (
	"encoding/json"
	"os"
	"testing"
)

func TestScratch(t *testing.T) {
	rules := Rules{
		Security: Setting[Security]{Value: SecurityAllowlist}, Ask: Setting[Ask]{Value: AskOnMiss}, AskFallback: Setting[Security]{Value: SecurityDeny},
		List:     []Rule{{Action: Allow, Pattern: "/usr/bin/ls"}, {Action: Allow, Pattern: "/usr/bin/git status"}, {Action: Deny, Pattern: "rm"}},
		SafeBins: Setting[[]string]{Value: []string{"head"}},
	}
	for _, c := range []string{"ls -la", "ls *.go | head -5", "git push", "git status -s", "ls; rm x", "ls 2>/dev/null", "FOO=1 ls", "$(rm x)", "sh -c 'ls | head'", "ls \"$HOME\" | head -3"} {
		d := Decide(Request{Command: c, Shell: []string{"/bin/bash", "-c"}, Dir: "/tmp", Path: os.Getenv("PATH"), Home: "/root"}, rules, OS{})
		b, _ := json.MarshalIndent(d, "", " ")
		_ = b
		t.Logf("%-30q %s: %s %v %v", c, d.Outcome, d.Reason, d.Fix, d.Run)
	}
}

func BenchmarkDecide(b *testing.B) {
	rules := Rules{
		Security: Setting[Security]{Value: SecurityAllowlist}, Ask: Setting[Ask]{Value: AskOnMiss},
		List:     []Rule{{Action: Allow, Pattern: "/usr/bin/ls"}, {Action: Allow, Pattern: "/usr/bin/grep"}, {Action: Deny, Pattern: "rm"}},
		SafeBins: Setting[[]string]{Value: []string{"head"}},
	}
	for b.Loop() {
		Decide(Request{Command: "ls -la src | grep -n foo | head -5", Shell: []string{"/bin/bash", "-c"}, Dir: "/tmp", Path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", Home: "/root"}, rules, OS{})
	}
}
